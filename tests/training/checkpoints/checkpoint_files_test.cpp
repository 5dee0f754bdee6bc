// The files that attempts at a checkpoint leave in a folder: a failed attempt removes its files,
// the next attempt removes those of a killed one, and a file that cannot be removed is named.
#include <signal.h>
#include <sys/resource.h>

#include <mutex>
#include <set>

#include "tests/support/fit.hpp"
#include "tests/support/engine/local_cluster.hpp"
#include "chaos/sim_disk.hpp"
#include "training/checkpoints/checkpoint.hpp"

namespace troupe {
namespace {

using Names = std::vector<std::string>;

// Writes a checkpoint of one parameter on two shards; its values are the step.
void write(Disk& disk, const std::string& dir, int64_t step) {
  Manifest m{.generation = next_generation(disk, dir)};
  remove_leftovers(disk, dir);
  m.step = step;
  m.parameters = {{"w", DType::f32, {4}}};
  for (int32_t i = 0; i < 2; ++i) {
    ShardImage image{.step = step};
    const Slice slice{
        .parameter = "w", .dtype = DType::f32, .shape = {4}, .offset = 2 * i, .size = 2};
    const auto value = static_cast<float>(step);
    image.slices.push_back({.slice = slice, .values = Tensor::of<float>({value, value}, Shape{2})});
    m.files.push_back(
        write_shard_file(disk, dir, shard_file_name(m.generation, step, i, 2), image));
  }
  commit_checkpoint(disk, dir, m);
}

// The step of the newest checkpoint, after reading all its values; 0: there is none.
int64_t newest(Disk& disk, const std::string& dir) {
  Names warnings;
  const auto m = find_newest(disk, dir, warnings);
  CHECK(warnings.empty());
  if (!m) return 0;
  const Tensor w = read_parameters(disk, dir, *m).at(0).second;
  CHECK(same_bits(w,
                  Tensor::of<float>(std::vector<float>(4, static_cast<float>(m->step)), Shape{4})));
  return m->step;
}

// Files that belong to no checkpoint.
Names leftovers(const Names& names) {
  std::set<std::string> committed;
  const auto stem = [](const std::string& name) { return name.substr(0, name.find('.')); };
  for (const std::string& name : names)
    if (name.ends_with(".manifest.json")) committed.insert(stem(name));
  Names out;
  for (const std::string& name : names)
    if (name.ends_with(AtomicFile::kTempSuffix) || !committed.count(stem(name)))
      out.push_back(name);
  return out;
}

Names names_in(const std::string& dir) { return real_disk().list(dir); }

// While it lives, no file that this process writes may exceed this size.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) : handler_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{bytes, before_.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &now) == 0);
  }
  ~FileLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }
  FileLimit(const FileLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

}  // namespace

TEST_CASE(
    "an attempt that is killed at any call leaves the checkpoint before, and the next attempt "
    "removes what it has left, even if that one fails, too") {
  const std::string dir = "run";
  SimDisk probe;
  write(probe, dir, 1);
  const int64_t first = probe.calls;
  write(probe, dir, 2);
  int64_t left = 0;
  for (int64_t at = first; at < probe.calls; ++at)
    for (const bool all_stays : {false, true}) {
      CAPTURE(at);
      CAPTURE(all_stays);
      SimDisk disk;
      write(disk, dir, 1);
      disk.crash_at = at;
      CHECK_THROWS_AS(write(disk, dir, 2), SimCrash);
      disk.crash([&](uint64_t n) { return all_stays ? n - 1 : 0; });
      const int64_t found = newest(disk, dir);
      CHECK((found == 1 || (found == 2 && at == probe.calls - 1)));
      left += leftovers(disk.list(dir)).empty() ? 0 : 1;
      disk.says_full = true;  // the next attempt only cleans up
      CHECK_THROWS_AS(write(disk, dir, 3), Error);
      CHECK(leftovers(disk.list(dir)) == Names{});
      CHECK(newest(disk, dir) == found);
    }
  CHECK(left > 5);  // otherwise the test shows nothing
}

TEST_CASE("a checkpoint that is discarded goes manifest first, and no other goes with it") {
  const std::string dir = "run";
  SimDisk disk;
  for (const int64_t step : {1, 2}) write(disk, dir, step);
  disk.create(dir + "/000002-step2.shard-1-of-2.safetensors.temp");
  disk.create(dir + "/notes.txt");
  const Names before = disk.list(dir);
  disk.fail_at = disk.calls;  // the manifest stays, so its files do, too
  CHECK(discard_checkpoint(disk, dir, 2).size() == 1);
  CHECK(disk.list(dir) == before);
  CHECK(discard_checkpoint(disk, dir, 2) == Names{});
  CHECK(disk.list(dir) == Names{"000001-step1.manifest.json",
                                "000001-step1.shard-0-of-2.safetensors",
                                "000001-step1.shard-1-of-2.safetensors", "notes.txt"});
  CHECK(newest(disk, dir) == 1);
}

TEST_CASE("who froze as it wrote a file and goes on in a later run changes no file of that run") {
  const std::string dir = "run";
  const auto aside = [&](Disk& disk) {
    return std::make_unique<AtomicFile>(disk, dir, shard_file_name(1, 5, 0, 2),
                                        AtomicFile::IfThere::refuse);
  };
  SimDisk probe;
  write(probe, dir, 5);
  int refused = 0;
  // The frozen writer resumes at each call of the later run that changes the folder: before it made
  // its file, or after its file was removed.
  for (int64_t at = 0; at <= probe.calls; ++at)
    for (const bool made : {false, true}) {
      CAPTURE(at);
      CAPTURE(made);
      SimDisk disk;
      std::unique_ptr<AtomicFile> stale = made ? aside(disk) : nullptr;
      if (made) CHECK(discard_checkpoint(disk, dir, 1) == Names{});
      disk.meanwhile_at = disk.calls + at;
      disk.meanwhile = [&] {
        if (!made) stale = aside(disk);
        stale->write("of the run before");
        try {
          stale->commit();
        } catch (const Error&) {  // it came second, or its file is gone
        }
        stale.reset();
      };
      try {
        write(disk, dir, 5);
      } catch (const Error& e) {  // the name is taken; the next attempt uses another
        ++refused;
        CHECK(std::string(e.what()).find("File exists") != std::string::npos);
        CHECK(discard_checkpoint(disk, dir, 1) == Names{});
        write(disk, dir, 5);
      }
      if (disk.meanwhile) std::exchange(disk.meanwhile, nullptr)();
      CHECK(newest(disk, dir) == 5);
    }
  CHECK(refused > 0);
}

TEST_CASE("a disk renames to a new name, and never over a file that is there") {
  Folder folder("rename-new");
  const std::string& dir = folder.path();
  Disk& disk = real_disk();
  disk.make_dirs(dir);
  for (const std::string name : {"/a", "/b"})
    disk.create(dir + name)->write(std::as_bytes(std::span(name)));
  CHECK_THROWS_WITH_AS(disk.rename_new(dir + "/a", dir + "/b"),
                       doctest::Contains("File exists; another writer was first"), Error);
  CHECK(read_text(disk, dir + "/a", 10) == "/a");
  CHECK(read_text(disk, dir + "/b", 10) == "/b");
  disk.rename_new(dir + "/a", dir + "/c");
  CHECK(names_in(dir) == Names{"b", "c"});
  CHECK(disk.unique() != disk.unique());
}

TEST_CASE("what cannot be removed is named, and older checkpoints go all the same") {
  Folder folder("not-removed");
  const std::string& dir = folder.path();
  Disk& disk = real_disk();
  for (const int64_t step : {1, 2, 3, 4}) write(disk, dir, step);
  // Directories that have the names of a manifest, a shard's file and a file being written.
  for (const char* name : {"000002-step2.manifest.json", "000003-step3.shard-0-of-2.safetensors"}) {
    std::filesystem::remove(dir + "/" + name);
    std::filesystem::create_directory(dir + "/" + name);
  }
  std::filesystem::create_directory(dir + "/000001-step1.manifest.json.temp");
  const Names stayed = prune_checkpoints(disk, dir, 1);
  REQUIRE(stayed.size() == 3);
  CHECK(stayed[0] ==
        "cannot remove " + dir +
            "/000002-step2.manifest.json: Is a directory; no file of ours is one: move "
            "it away");
  CHECK(stayed[1].find("/000001-step1.manifest.json.temp: Is a directory") != std::string::npos);
  CHECK(stayed[2].find("/000003-step3.shard-0-of-2.safetensors: Is a") != std::string::npos);
  CHECK(names_in(dir) ==
        Names{"000001-step1.manifest.json.temp", "000002-step2.manifest.json",
              "000002-step2.shard-0-of-2.safetensors", "000002-step2.shard-1-of-2.safetensors",
              "000003-step3.shard-0-of-2.safetensors", "000004-step4.manifest.json",
              "000004-step4.shard-0-of-2.safetensors", "000004-step4.shard-1-of-2.safetensors"});
  CHECK(newest(disk, dir) == 4);
}

TEST_CASE("a folder in which something cannot be removed is said once, and training goes on") {
  Folder folder("said-once");
  Fit fit;
  TrainOptions options{
      .steps = 8, .checkpoint_dir = folder.path(), .checkpoint_every = 1, .checkpoint_keep = 2};
  options.on_progress = [&](const TrainProgress&) {
    std::filesystem::create_directories(folder.path() + "/000000-step0.manifest.json");
  };
  Names said;
  std::mutex mutex;  // guards `said`; any thread logs
  ProcessOptions process{.threads = 1};
  process.log = [&](LogLevel level, const std::string& line) {
    std::lock_guard lock(mutex);
    if (level == LogLevel::warn) said.push_back(line);
  };
  {
    Session session = Session::local(fit.graph, process);
    train(session, fit.all, options);
  }
  CHECK(folder.manifests() == 3);  // includes the directory
  REQUIRE(said.size() == 1);
  CHECK(said[0].find("000000-step0.manifest.json: Is a directory") != std::string::npos);
}

TEST_CASE("a checkpoint that one of two shards cannot write leaves nothing of the other one") {
  LocalCluster cluster({"/job:ps/task:0", "/job:ps/task:1"});
  Graph graph;
  const Output large = parameter("large", fill(graph, {15'000}, 1));  // 60,000 bytes, and 4
  const Output small = parameter("small", fill(graph, {}, 1));
  const Output loss = reduce_sum(large) * small;
  const Tower tower{0, loss, minimize(loss, sgd(1e-6)), {}, {}};
  Folder folder("one-shard-of-two");
  TrainOptions options{.steps = 6, .checkpoint_dir = folder.path(), .checkpoint_every = 2};
  std::optional<FileLimit> limit(std::in_place, 40'000);
  Names warnings;
  std::vector<Names> left;
  options.on_event = [&](const TrainEvent& e) {
    if (e.kind != TrainEvent::warning) return;
    warnings.push_back(e.text);
    left.push_back(names_in(folder.path()));
    if (warnings.size() == 2) limit.reset();
  };
  Session session = cluster.connect(graph);
  const TrainResult result = train(session, {tower}, options);
  REQUIRE(warnings.size() == 2);
  for (int i = 0; i < 2; ++i) {
    CHECK(warnings[static_cast<size_t>(i)].find(
              detail::concat("no checkpoint of step ", 2 + 2 * i,
                             " and none before it, and training goes on: /job:ps/task:")) == 0);
    CHECK(warnings[static_cast<size_t>(i)].find("File too large") != std::string::npos);
    CHECK(left[static_cast<size_t>(i)] == Names{});
  }
  const Names names = names_in(folder.path());
  CHECK(names.size() == 3);
  CHECK(leftovers(names) == Names{});
  // A late writer of a failed attempt may still rename its file, so no number is used twice.
  CHECK(result.checkpoint.find("/000003-step6.") != std::string::npos);
}

}  // namespace troupe

// Checkpoints that cannot be read when shards are to be restored, or are damaged: nothing begins
// anew, and none is removed for one that nobody has read.
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <thread>

#include "tests/support/fit.hpp"
#include "tests/support/engine/local_cluster.hpp"
#include "chaos/sim_disk.hpp"
#include "training/checkpoints/checkpoint.hpp"
#include "training/checkpoints/checkpoint_folder.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

// A training on a ps and a worker. After its first checkpoint `meanwhile` happens, and the ps dies
// and is started again.
class Course {
 public:
  explicit Course(const std::string& folder) : folder_(folder) {
    options = steps(500);
    options.checkpoint_dir = folder_.path();
    options.checkpoint_every = 200;
    options.pause_every = 220;  // it waits until that checkpoint is on disk
  }
  // `later`: at the pauses after that.
  TrainResult run(
      const std::function<void()>& meanwhile, const std::function<void()>& later = [] {}) {
    LocalCluster cluster({"/job:ps/task:0", "/job:worker/task:0"});
    Fit fit(adam(), 1);
    Session session = cluster.connect(fit.graph);
    bool done = false;
    options.on_pause = [&](const TrainPause&) {
      if (std::exchange(done, true)) {
        later();
        return true;
      }
      meanwhile();
      cluster.process(0).stop();
      cluster.restart(0);
      return true;
    };
    options.on_event = [&](const TrainEvent& e) {
      std::lock_guard lock(mutex_);
      told_.push_back(e.text);
      changed_.notify_all();
    };
    return train(session, fit.all, options);
  }
  void hide() { fs::rename(folder_.path(), folder_.path() + "-away"); }
  void show() {
    fs::remove_all(folder_.path());
    fs::rename(folder_.path() + "-away", folder_.path());
  }
  // Until the program has been told of it, or for so long.
  void wait_for(const std::string& part, std::chrono::seconds limit) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limit, [&] { return count_now(part) > 0; });
  }
  size_t count(const std::string& part) {
    std::lock_guard lock(mutex_);
    return count_now(part);
  }
  const std::string& path() const { return folder_.path(); }
  size_t manifests() const { return folder_.manifests(); }

  TrainOptions options;

 private:
  size_t count_now(const std::string& part) const {
    return static_cast<size_t>(std::count_if(
        told_.begin(), told_.end(),
        [&](const std::string& line) { return line.find(part) != std::string::npos; }));
  }
  Folder folder_;
  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  std::vector<std::string> told_;
};

std::string undisturbed() { return LocalFit(adam(), 1).train(steps(500)).weights_sha256; }

}  // namespace

TEST_CASE("a folder of checkpoints that is away while a ps dies is waited for") {
  Course course("away-for-a-while");
  std::thread back;
  const TrainResult result = course.run([&] {
    course.hide();
    back = std::thread([&] {
      course.wait_for("no checkpoint is in " + course.path(), 5s);
      course.show();
    });
  });
  back.join();
  CHECK(result.recoveries == 1);
  CHECK(course.count("/job:client/task:") > 0);
  CHECK(course.count("no checkpoint is in " + course.path()) == 1);
  CHECK(course.count("shards restored at step 200;") == 1);
  CHECK(course.count("shards restored at step 0;") == 0);
  CHECK(result.weights_sha256 == undisturbed());
}

TEST_CASE("a training whose checkpoints stay away ends with an error, and they stay whole") {
  Course course("away-for-good");
  course.options.patience = 1500ms;
  const auto refused = refusal_of([&] { course.run([&] { course.hide(); }); });
  CHECK(refused.code == Errc::io);
  has(refused.text, "the shards could not be restored for 1 s: ");
  has(refused.text, "no checkpoint is in " + course.path() + ", where ");
  has(refused.text, "mount it again");
  course.show();
  CHECK(course.manifests() == 1);
}

TEST_CASE("a training restores no checkpoint of another one that has its folder's name now") {
  Course course("taken");
  course.options.patience = 1500ms;
  std::optional<CheckpointFolder> other;
  const auto refused = refusal_of([&] {
    course.run([&] {
      course.hide();
      fs::copy(course.path() + "-away", course.path());  // whole checkpoints, and of a later step
      other.emplace(course.path()).claim();
    });
  });
  CHECK(refused.code == Errc::io);
  has(refused.text, "another training writes to " + course.path() + " now");
  has(refused.text, "put it back");
  CHECK(course.manifests() == 1);
  other.reset();
  course.show();
}

TEST_CASE("a training goes on in a folder that was made anew, and keeps other ones out") {
  Course course("made-anew");
  course.options.steps = 800;
  int refused = 0;
  const TrainResult result = course.run(
      [&] {
        fs::rename(course.path(), course.path() + "-away");
        fs::copy(course.path() + "-away", course.path());
        fs::remove_all(course.path() + "-away");
      },
      [&] {
        CheckpointFolder other(course.path());
        refused += code_of([&] { other.claim(); }) == Errc::invalid_argument;
      });
  CHECK(result.recoveries == 1);
  CHECK(refused > 0);
}

TEST_CASE("a training of which every checkpoint is damaged when a ps dies does not begin anew") {
  Course course("all-damaged");
  course.options.patience = 1500ms;
  const auto refused = refusal_of([&] {
    course.run([&] {
      for (const auto& entry : fs::directory_iterator(course.path()))
        std::ofstream(entry.path(), std::ios::app) << "x";
    });
  });
  CHECK(refused.code == Errc::bad_data);
  has(refused.text, "no checkpoint in " + course.path() + " is whole; 1 is damaged");
  CHECK(course.count("cannot be used, trying the one before") == 1);  // once, not once a try
}

TEST_CASE("a training that has no checkpoint yet begins anew when a ps dies") {
  Course course("none-yet");
  course.options.checkpoint_every = course.options.pause_every = 0;
  LocalCluster cluster({"/job:ps/task:0", "/job:worker/task:0"});
  Fit fit(adam(), 1);
  Session session = cluster.connect(fit.graph);
  bool done = false;
  course.options.on_progress = [&](const TrainProgress& p) {
    if (p.step < 100 || std::exchange(done, true)) return;
    cluster.process(0).stop();
    cluster.restart(0);
  };
  const TrainResult result = train(session, fit.all, course.options);
  CHECK(result.recoveries == 1);
  CHECK(result.weights_sha256 == undisturbed());
}

TEST_CASE("a ps that dies under the asynchronous rule loses updates, and the result counts them") {
  Course course("async-loss");
  course.options.rule = Aggregation::async;
  const TrainResult result = course.run([] {});
  CHECK(result.recoveries == 1);
  CHECK(result.lost_updates == 20);  // of the steps between the checkpoint and the pause
  CHECK(course.count("the updates of 20 acknowledged steps are lost") == 1);
}

TEST_CASE("a training without checkpoints is warned if other processes hold its parameters") {
  const std::string part = "no checkpoint_dir";
  TrainOptions options = steps(3);
  size_t warnings = 0;
  options.on_event = [&](const TrainEvent& e) {
    warnings += e.kind == TrainEvent::warning && e.text.find(part) != std::string::npos;
  };
  LocalFit(adam(), 1).train(options);
  CHECK(warnings == 0);  // its process is lost with them
  LocalCluster cluster({"/job:ps/task:0", "/job:worker/task:0"});
  Fit fit(adam(), 1);
  Session session = cluster.connect(fit.graph);
  train(session, fit.all, options);
  CHECK(warnings == 1);
  Folder folder("some-checkpoints");
  options.checkpoint_dir = folder.path();
  train(session, fit.all, options);
  CHECK(warnings == 1);
}

// Files

namespace {

const std::string kDir = "run";

Manifest save(Disk& disk, int64_t step, int keep) {
  Manifest m{.generation = next_generation(disk, kDir), .step = step};
  m.parameters = {{"w", DType::f32, {1}}};
  ShardImage image;
  const Slice slice{.parameter = "w", .dtype = DType::f32, .shape = {1}, .offset = 0, .size = 1};
  const auto value = static_cast<float>(step);
  image.slices.push_back({.slice = slice, .values = Tensor::of<float>({value}, Shape{1})});
  m.files = {write_shard_file(disk, kDir, shard_file_name(m.generation, step, 0, 1), image)};
  check_files(disk, kDir, m);
  commit_checkpoint(disk, kDir, m);
  CHECK(prune_checkpoints(disk, kDir, keep).empty());
  return m;
}

std::vector<int64_t> steps_in(Disk& disk) {
  std::vector<int64_t> out;
  for (const std::string& name : disk.list(kDir))
    if (name.ends_with(".manifest.json"))
      out.push_back(std::stoll(name.substr(name.find("-step") + 5)));
  return out;
}

}  // namespace

TEST_CASE("a checkpoint of an earlier step removes none of a later one") {
  SimDisk disk;
  for (const int64_t step : {7000, 8000, 9000}) save(disk, step, 2);
  CHECK(steps_in(disk) == std::vector<int64_t>{8000, 9000});
  for (const int64_t step : {1000, 2000, 3000}) save(disk, step, 2);  // it began anew
  CHECK(steps_in(disk) == std::vector<int64_t>{8000, 9000, 2000, 3000});
  save(disk, 8000, 2);
  CHECK(steps_in(disk) == std::vector<int64_t>{9000, 3000, 8000});
  save(disk, 9000, 2);
  CHECK(steps_in(disk) == std::vector<int64_t>{8000, 9000});
}

TEST_CASE("a checkpoint that cannot be read is waited for, and no earlier one is taken instead") {
  SimDisk disk;
  for (const int64_t step : {1, 2}) save(disk, step, 2);
  std::vector<std::string> warnings;
  disk.folders = [n = 0]() mutable {  // it goes when it has been listed
    return n++ < 1 ? SimDisk::Folders::here : SimDisk::Folders::refused;
  };
  CHECK_THROWS_WITH_AS(find_newest(disk, kDir, warnings), doctest::Contains("Permission denied"),
                       Error);
  disk.folders = [] { return SimDisk::Folders::refused; };
  CHECK_THROWS_WITH_AS(find_newest(disk, kDir, warnings), doctest::Contains("cannot list"), Error);
  disk.folders = [] { return SimDisk::Folders::here; };
  CHECK(find_newest(disk, kDir, warnings)->step == 2);
  CHECK(warnings.empty());
}

TEST_CASE("files that are not as their shard has said are no checkpoint") {
  SimDisk disk;
  Manifest m = save(disk, 1, 1);
  check_files(disk, kDir, m);
  const std::string path = kDir + "/" + m.files[0].name;
  disk.bytes(path).back() ^= 1;
  CHECK_THROWS_WITH_AS(check_files(disk, kDir, m), doctest::Contains("the file is damaged"), Error);
  disk.remove(path);
  CHECK_THROWS_WITH_AS(check_files(disk, kDir, m), doctest::Contains("No such file"), Error);
}

}  // namespace troupe

// Checkpoints: round trips, another number of shards, damage, full disks, and a crash at every
// call.
#include "training/checkpoints/checkpoint.hpp"

#include <filesystem>

#include "tests/support/refusal.hpp"
#include "chaos/sim_disk.hpp"
#include "training/checkpoints/digest.hpp"

namespace troupe {
namespace {

const std::string kDir = "run";

const std::vector<ParameterSpec>& parameters() {
  static const std::vector<ParameterSpec> all = {
      {"conv/w", DType::f32, {3, 3, 8}, Optimizer{.kind = "adam"}},
      {"fc/w", DType::f32, {300, 120}, Optimizer{.kind = "adam"}},
      {"scale", DType::f64, {}, Optimizer{.kind = "adam"}},
      {"table", DType::i64, {5}}};
  return all;
}

// For tests that save thousands of times.
const std::vector<ParameterSpec>& few_parameters() {
  static const std::vector<ParameterSpec> all = {
      {"conv/w", DType::f32, {3, 3, 8}, Optimizer{.kind = "adam"}},
      {"scale", DType::f64, {}, Optimizer{.kind = "adam"}}};
  return all;
}

// A value that says which element of which tensor at which step it is.
double value_at(const std::string& name, int64_t i, int64_t step) {
  return static_cast<double>(step * 1'000'000 + i) + 0.25 * static_cast<double>(name.size());
}
Tensor values_of(const Slice& slice, const std::string& what, int64_t step) {
  Tensor t = Tensor::empty(slice.dtype, Shape{slice.size});
  for (int64_t i = 0; i < slice.size; ++i) {
    const double v = value_at(what + slice.parameter, slice.offset + i, step);
    if (slice.dtype == DType::f32) t.mutable_data<float>()[i] = static_cast<float>(v);
    if (slice.dtype == DType::f64) t.mutable_data<double>()[i] = v;
    if (slice.dtype == DType::i64) t.mutable_data<int64_t>()[i] = static_cast<int64_t>(v);
  }
  return t;
}

std::vector<ShardImage> images(int32_t shards, int64_t step,
                               const std::vector<ParameterSpec>& model = parameters()) {
  std::vector<ShardImage> out(static_cast<size_t>(shards));
  for (const Slice& slice : split_parameters(model, shards)) {
    SliceState s{
        .slice = slice, .version = step, .next_step = step, .values = values_of(slice, "", step)};
    if (slice.optimizer) {
      for (const char* name : {"adam_m", "adam_v"})
        s.optimizer_accumulators.emplace_back(name, values_of(slice, name, step));
      s.progress = replicas_at(3, step);
    }
    out[static_cast<size_t>(slice.shard)].slices.push_back(std::move(s));
  }
  for (ShardImage& image : out) {
    image.epoch = 4;
    image.step = step;
  }
  return out;
}

Manifest save(Disk& disk, int32_t shards, int64_t step, int keep = 3,
              const std::vector<ParameterSpec>& model = parameters()) {
  Manifest m{.generation = next_generation(disk, kDir), .step = step, .epoch = 4};
  m.next_steps = {{0, step}, {1, step}, {2, step}};
  m.data_seed = UINT64_MAX;
  m.graph_fingerprint = "f00d";
  m.parameters = model;
  const std::vector<ShardImage> all = images(shards, step, model);
  for (int32_t i = 0; i < shards; ++i)
    m.files.push_back(write_shard_file(disk, kDir, shard_file_name(m.generation, step, i, shards),
                                       all[static_cast<size_t>(i)]));
  commit_checkpoint(disk, kDir, m);
  for (const std::string& line : prune_checkpoints(disk, kDir, keep)) throw Error(Errc::io, line);
  return m;
}

void check_state(Disk& disk, const Manifest& m, int32_t shards,
                 const std::vector<ParameterSpec>& model = parameters()) {
  const std::vector<Slice> wanted = split_parameters(model, shards, 10);
  const std::vector<SliceState> states = read_slices(disk, kDir, m, wanted);
  REQUIRE(states.size() == wanted.size());
  for (size_t i = 0; i < states.size(); ++i) {
    const SliceState& s = states[i];
    CHECK(s.slice.id == wanted[i].id);
    CHECK(s.version == m.step);
    CHECK(s.next_step == m.step);
    CHECK(same_bits(s.values, values_of(wanted[i], "", m.step)));
    REQUIRE(s.optimizer_accumulators.size() == (wanted[i].optimizer ? 2 : 0));
    for (const auto& [name, tensor] : s.optimizer_accumulators)
      CHECK(same_bits(tensor, values_of(wanted[i], name, m.step)));
    if (wanted[i].optimizer) CHECK(s.progress == replicas_at(3, m.step));
  }
}

std::optional<Manifest> newest(Disk& disk, std::vector<std::string>* warnings = nullptr) {
  std::vector<std::string> ignored;
  return find_newest(disk, kDir, warnings ? *warnings : ignored);
}

TEST_CASE("a checkpoint read back has every bit of what was written, on any number of shards") {
  for (int32_t written : {1, 2, 3})
    for (int32_t read : {1, 2, 5}) {
      CAPTURE(written);
      CAPTURE(read);
      SimDisk disk;
      save(disk, written, 12);
      std::vector<std::string> warnings;
      const auto m = newest(disk, &warnings);
      REQUIRE(m);
      CHECK(warnings.empty());
      CHECK(m->step == 12);
      CHECK(m->epoch == 4);
      CHECK(m->data_seed == UINT64_MAX);
      CHECK(m->next_steps == std::vector<std::pair<int64_t, int64_t>>{{0, 12}, {1, 12}, {2, 12}});
      check_state(disk, *m, read);
    }
}

// Replica 0 has not counted step 5 in the first piece, and steps 3 and 6 in the second.
TEST_CASE("pieces that replicas have reached unequally are read back with the steps they counted") {
  const ParameterSpec w{"w", DType::f32, {8}, Optimizer{.kind = "sgd"}};
  const auto piece = [&](int64_t offset, int64_t size) {
    return Slice{.parameter = w.name,
                 .dtype = w.dtype,
                 .shape = w.shape,
                 .offset = offset,
                 .size = size,
                 .optimizer = w.optimizer};
  };
  const std::vector<std::vector<ReplicaProgress>> written = {
      {{0, 9, ~uint64_t{0b1000}}, {1, 7, ~uint64_t{0}}},
      {{0, 8, ~uint64_t{0b10010}}, {1, 4, ~uint64_t{1}}}};
  SimDisk disk;
  Manifest m{.generation = next_generation(disk, kDir), .step = 4, .parameters = {w}};
  for (int32_t shard = 0; shard < 2; ++shard) {
    ShardImage image{.step = 4};
    image.slices.push_back({.slice = piece(4 * shard, 4),
                            .version = 16,
                            .next_step = 4,
                            .values = Tensor::zeros(DType::f32, {4}),
                            .progress = written[static_cast<size_t>(shard)]});
    m.files.push_back(
        write_shard_file(disk, kDir, shard_file_name(m.generation, m.step, shard, 2), image));
  }
  commit_checkpoint(disk, kDir, m);
  const auto read = [&](const Slice& wanted) {
    return read_slices(disk, kDir, m, {wanted}).at(0).progress;
  };
  CHECK(read(piece(0, 4)) == written[0]);
  CHECK(read(piece(4, 4)) == written[1]);
  CHECK(read(piece(0, 8)) == written[1]);  // that of the piece that is behind
}

TEST_CASE("a manifest's text is read back equal") {
  SimDisk disk;
  const std::string text = to_text(save(disk, 2, 7));
  CHECK(to_text(manifest_from_text(text, "m")) == text);
}

TEST_CASE(
    "whole parameters come back in their shapes, and their digest does not depend on the cut") {
  SimDisk one, three;
  const Manifest a = save(one, 1, 3), b = save(three, 3, 3);
  const auto parameters_a = read_parameters(one, kDir, a),
             parameters_b = read_parameters(three, kDir, b);
  REQUIRE(parameters_a.size() == 4);
  CHECK(parameters_a[1].second.shape() == Shape{300, 120});
  CHECK(weights_sha256(parameters_a) == weights_sha256(parameters_b));
}

TEST_CASE("the same files on the real disk") {
  const std::string dir = std::filesystem::temp_directory_path() / "checkpoint_test/nested";
  Disk& disk = real_disk();
  for (const std::string& name : disk.list(dir)) disk.remove(dir + "/" + name);
  CHECK(next_generation(disk, dir) == 1);
  const ShardImage image = images(1, 2)[0];
  Manifest m{.generation = 1,
             .step = 2,
             .parameters = parameters(),
             .files = {write_shard_file(disk, dir, shard_file_name(1, 2, 0, 1), image)}};
  commit_checkpoint(disk, dir, m);
  CHECK(disk.list(dir) == std::vector<std::string>{"000001-step2.manifest.json",
                                                   "000001-step2.shard-0-of-1.safetensors"});
  std::vector<std::string> warnings;
  REQUIRE(find_newest(disk, dir, warnings));
  CHECK(same_bits(read_slices(disk, dir, m, {image.slices[0].slice})[0].values,
                  image.slices[0].values));
  CHECK(next_generation(disk, dir) == 2);
  m.generation = 2;
  m.step = 3;
  m.files = {write_shard_file(disk, dir, shard_file_name(2, 3, 0, 1), images(1, 3)[0])};
  commit_checkpoint(disk, dir, m);
  CHECK(prune_checkpoints(disk, dir, 1).empty());
  CHECK(disk.list(dir) == std::vector<std::string>{"000002-step3.manifest.json",
                                                   "000002-step3.shard-0-of-1.safetensors"});
  CHECK_THROWS_WITH_AS(disk.open(dir), doctest::Contains("it is not a regular file"), Error);
  CHECK_THROWS_WITH_AS(disk.create(dir + "/no/file"),
                       doctest::Contains("No such file or directory; check the path"), Error);
}

TEST_CASE("a file with the last number there is makes no checkpoint with a number past it") {
  SimDisk disk;
  disk.create(kDir + "/9223372036854775807-step5.manifest.json");
  CHECK_THROWS_WITH_AS(next_generation(disk, kDir), doctest::Contains("remove it"), Error);
}

TEST_CASE("the last k checkpoints are kept, and what was cut short is removed") {
  SimDisk disk;
  disk.create(kDir + "/000001-step5.shard-0-of-2.safetensors.temp");
  disk.create(kDir + "/notes.txt");
  for (int64_t step = 1; step <= 5; ++step) save(disk, 2, step, 2);
  CHECK(disk.list(kDir) ==
        std::vector<std::string>{
            "000005-step4.manifest.json", "000005-step4.shard-0-of-2.safetensors",
            "000005-step4.shard-1-of-2.safetensors", "000006-step5.manifest.json",
            "000006-step5.shard-0-of-2.safetensors", "000006-step5.shard-1-of-2.safetensors",
            "notes.txt"});
}

TEST_CASE("a damaged checkpoint is not counted as one of those that are kept") {
  SimDisk disk;
  for (int64_t step = 1; step <= 3; ++step) save(disk, 1, step, 3);
  disk.bytes(kDir + "/000002-step2.manifest.json").resize(1);
  disk.bytes(kDir + "/000003-step3.shard-0-of-1.safetensors").clear();
  save(disk, 1, 4, 2);
  std::vector<std::string> warnings;
  CHECK(newest(disk, &warnings)->step == 4);
  CHECK(disk.has(kDir + "/000001-step1.manifest.json"));  // the second whole one
  save(disk, 1, 5, 2);
  CHECK(disk.list(kDir) == std::vector<std::string>{"000004-step4.manifest.json",
                                                    "000004-step4.shard-0-of-1.safetensors",
                                                    "000005-step5.manifest.json",
                                                    "000005-step5.shard-0-of-1.safetensors"});
}

TEST_CASE("replicas of another optimizer begin at zero, and values are kept") {
  SimDisk disk;
  const Manifest m = save(disk, 1, 9);
  Slice slice = split_parameters(parameters(), 1)[0];
  slice.optimizer = Optimizer{.kind = "momentum"};
  const SliceState s = read_slices(disk, kDir, m, {slice})[0];
  CHECK(s.optimizer_accumulators.empty());
  CHECK(same_bits(s.values, values_of(slice, "", 9)));
}

TEST_CASE("a checkpoint of another run is refused with what differs") {
  SimDisk disk;
  const Manifest m = save(disk, 1, 9);
  check_manifest(m, parameters(), "", UINT64_MAX);
  check_manifest(m, parameters(), "f00d", UINT64_MAX);
  const auto refused = [&](std::vector<ParameterSpec> p, const std::string& fingerprint,
                           uint64_t seed, const char* text) {
    CHECK_THROWS_WITH_AS(check_manifest(m, p, fingerprint, seed), doctest::Contains(text), Error);
  };
  std::vector<ParameterSpec> p = parameters();
  p[1].shape = {300, 121};
  refused(p, "", UINT64_MAX, "its parameter fc/w is f32[300, 120], the graph's is f32[300, 121]");
  p = parameters();
  p.pop_back();
  refused(p, "", UINT64_MAX, "the graph has no parameter table");
  p = parameters();
  p.push_back({"new", DType::f32, {1}});
  refused(p, "", UINT64_MAX, "it has no parameter new");
  p.erase(p.begin());
  p.push_back({"newer", DType::f32, {1}});
  refused(p, "", UINT64_MAX, "it has no parameter new, newer; the graph has no parameter conv/w;");
  refused(p, "", UINT64_MAX, "with LoadOptions::strict = false takes what both have");
  refused(parameters(), "beef", UINT64_MAX, "its graph is f00d, this one is beef");
  refused(parameters(), "", 1, "its data seed is 18446744073709551615, this run's is 1");
  Slice wanted = split_parameters(parameters(), 1)[1];
  wanted.shape = {300, 121};
  CHECK_THROWS_WITH_AS(read_slices(disk, kDir, m, {wanted}),
                       doctest::Contains("parameter fc/w is f32[300, 120]"), Error);
}

// ---- damage ----

TEST_CASE(
    "every flipped bit, cut and missing file of the newest checkpoint is found, and the one before "
    "is used") {
  struct Damage {
    const char* name;
    std::function<void(SimDisk&, const Manifest&)> apply;
    const char* warning;
  };
  const auto shard = [](const Manifest& m) { return kDir + "/" + m.files[1].name; };
  const auto manifest = [](const Manifest& m) {
    return kDir + "/" + manifest_name(m.generation, m.step);
  };
  const std::vector<Damage> table = {
      {"a flipped bit in a tensor",
       [&](SimDisk& d, const Manifest& m) { d.bytes(shard(m)).back() ^= 4; },
       "the file is damaged"},
      {"a flipped bit in a header",
       [&](SimDisk& d, const Manifest& m) { d.bytes(shard(m))[20] ^= 1; }, "the file is damaged"},
      {"a file cut short", [&](SimDisk& d, const Manifest& m) { d.bytes(shard(m)).pop_back(); },
       "bytes by the manifest, found"},
      {"a file too long", [&](SimDisk& d, const Manifest& m) { d.bytes(shard(m)) += "x"; },
       "bytes by the manifest, found"},
      {"an empty file", [&](SimDisk& d, const Manifest& m) { d.bytes(shard(m)).clear(); },
       "by the manifest, found 0"},
      {"a missing file", [&](SimDisk& d, const Manifest& m) { d.remove(shard(m)); },
       "no such file"},
      {"an empty manifest", [&](SimDisk& d, const Manifest& m) { d.bytes(manifest(m)).clear(); },
       "0 bytes; the file is cut short"},
      {"a manifest cut short",
       [&](SimDisk& d, const Manifest& m) { d.bytes(manifest(m)).resize(300); },
       "cut short or damaged"},
      {"a flipped bit in a manifest",
       [&](SimDisk& d, const Manifest& m) { d.bytes(manifest(m))[60] ^= 1; },
       "the file is damaged"},
      {"bytes after a manifest",
       [&](SimDisk& d, const Manifest& m) { d.bytes(manifest(m)) += " "; }, "cut short or damaged"},
      {"another's manifest",
       [&](SimDisk& d, const Manifest& m) {
         d.bytes(manifest(m)) = d.bytes(kDir + "/" + manifest_name(1, 10));
       },
       "expected generation 2 and step 20 by its name"},
  };
  for (const Damage& damage : table) {
    CAPTURE(damage.name);
    SimDisk disk;
    save(disk, 2, 10);
    const Manifest m = save(disk, 2, 20);
    damage.apply(disk, m);
    std::vector<std::string> warnings;
    const auto found = newest(disk, &warnings);
    REQUIRE(found);
    CHECK(found->step == 10);
    check_state(disk, *found, 2);
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0].rfind("the checkpoint of step 20 cannot be used, trying the one before: ",
                            0) == 0);
    CHECK(warnings[0].find(damage.warning) != std::string::npos);
  }
}

TEST_CASE("every single flipped byte of a small checkpoint is found before it is used") {
  SimDisk disk;
  Manifest m{.generation = 1};
  Slice slice{.parameter = "w", .dtype = DType::f32, .shape = {2}, .offset = 0, .size = 2};
  ShardImage image;
  image.slices.push_back({.slice = slice, .values = Tensor::of<float>({1, 2}, Shape{2})});
  m.parameters = {{"w", DType::f32, {2}}};
  m.files = {write_shard_file(disk, kDir, shard_file_name(1, 0, 0, 1), image)};
  commit_checkpoint(disk, kDir, m);
  REQUIRE(newest(disk));
  for (const std::string& path : {kDir + "/" + m.files[0].name, kDir + "/" + manifest_name(1, 0)})
    for (size_t i = 0; i < disk.bytes(path).size(); ++i) {
      disk.bytes(path)[i] ^= 0x11;
      CHECK(!newest(disk));
      disk.bytes(path)[i] ^= 0x11;
    }
  for (size_t i = 0; i < disk.bytes(kDir + "/" + m.files[0].name).size();
       ++i) {  // restoring checks by itself too
    disk.bytes(kDir + "/" + m.files[0].name)[i] ^= 0x11;
    CHECK_THROWS_AS(read_slices(disk, kDir, m, {slice}), Error);
    disk.bytes(kDir + "/" + m.files[0].name)[i] ^= 0x11;
  }
}

TEST_CASE("every single flipped bit of a manifest is an error of its data") {
  SimDisk disk;
  std::string text = to_text(save(disk, 2, 5));
  CHECK(manifest_from_text(text, "m").step == 5);
  for (size_t i = 0; i < text.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      text[i] = static_cast<char>(text[i] ^ 1 << bit);
      CAPTURE(i);
      REQUIRE(code_of([&] { manifest_from_text(text, "m"); }) == Errc::bad_data);
      text[i] = static_cast<char>(text[i] ^ 1 << bit);
    }
}

TEST_CASE("a manifest of a later format says so instead of being passed over") {
  SimDisk disk;
  const Manifest m = save(disk, 1, 5);
  std::string text = to_text(m);
  const size_t at = text.find("\"version\": 4");
  text.replace(at, 12, "\"version\": 5");
  const size_t tail = text.rfind(",\n  \"sha256\"");
  Sha256 sha;
  sha.add(text.substr(0, tail));
  text = text.substr(0, tail) + ",\n  \"sha256\": \"" + sha.hex() + "\"\n}\n";
  disk.bytes(kDir + "/" + manifest_name(1, 5)) = text;
  CHECK_THROWS_WITH_AS(newest(disk),
                       doctest::Contains("has format version 5, this program reads 1 to 4"), Error);
}

// ---- full disks and crashes ----

TEST_CASE("a full disk is an error that leaves the checkpoint before as it was") {
  SimDisk probe;
  save(probe, 2, 1);
  int64_t used = 0;
  for (const std::string& name : probe.list(kDir))
    used += static_cast<int64_t>(probe.bytes(kDir + "/" + name).size());
  for (int64_t room : {int64_t{1}, used / 4, used / 2, used - 1}) {
    CAPTURE(room);
    SimDisk disk;
    save(disk, 2, 1);
    disk.bytes_max = used + room;
    CHECK_THROWS_AS(save(disk, 2, 2), Error);
    const auto m = newest(disk);
    REQUIRE(m);
    CHECK(m->step == 1);
    disk.bytes_max = -1;
    save(disk, 2, 2, 1);
    CHECK(disk.list(kDir).size() == 3);
  }
  SimDisk full;
  full.says_full = true;
  CHECK_THROWS_WITH_AS(save(full, 1, 1), doctest::Contains("to spare, 0 are free; free some space"),
                       Error);
}

TEST_CASE("an error at any call leaves a whole checkpoint, and the next one succeeds") {
  SimDisk probe;
  save(probe, 2, 1, 1, few_parameters());
  const int64_t first = probe.calls;
  save(probe, 2, 2, 1, few_parameters());
  for (int64_t at = first; at < probe.calls; ++at) {
    CAPTURE(at);
    SimDisk disk;
    save(disk, 2, 1, 1, few_parameters());
    disk.fail_at = at;
    CHECK_THROWS_AS(save(disk, 2, 2, 1, few_parameters()), Error);
    const auto m = newest(disk);
    REQUIRE(m);
    check_state(disk, *m, 1, few_parameters());
    disk.fail_at = -1;
    save(disk, 2, 3, 1, few_parameters());
    CHECK(disk.list(kDir).size() == 3);
  }
}

TEST_CASE(
    "a crash at any call, whatever it tears or loses, leaves a checkpoint at least as new as the "
    "last one reported") {
  constexpr int64_t kSteps = 4;
  constexpr int32_t kShards = 2;
  SimDisk probe;
  for (int64_t step = 1; step <= kSteps; ++step) save(probe, kShards, step, 2, few_parameters());
  int64_t crashes = 0;
  for (int64_t at = 0; at < probe.calls; ++at)
    for (uint64_t seed = 0; seed < 6; ++seed) {
      CAPTURE(at);
      CAPTURE(seed);
      SimDisk disk;
      disk.crash_at = at;
      int64_t reported = 0;
      try {
        for (int64_t step = 1; step <= kSteps; ++step) {
          save(disk, kShards, step, 2, few_parameters());
          reported = step;
        }
      } catch (const SimCrash&) {
        ++crashes;
      }
      uint64_t state = seed * 1'000 + static_cast<uint64_t>(at);
      disk.crash([&](uint64_t n) -> uint64_t {
        if (seed == 0) return 0;      // all that was not synced is lost
        if (seed == 1) return n - 1;  // nothing is lost
        state = state * 6364136223846793005U + 1442695040888963407U;
        return (state >> 33) % n;
      });
      std::vector<std::string> warnings;
      const auto m = newest(disk, &warnings);
      if (reported > 0) {
        REQUIRE(m);
        REQUIRE(m->step >= reported);
      }
      if (m) check_state(disk, *m, 1, few_parameters());
      for (const std::string& name : disk.list(kDir))  // a manifest never outlives its files
        if (name.ends_with(".manifest.json"))
          for (const CheckpointFile& file : read_manifest(disk, kDir, name).files)
            CHECK(disk.has(kDir + "/" + file.name));
      CHECK(warnings.empty());  // a crash never leaves a damaged checkpoint, only none
      save(disk, kShards, 9, 1, few_parameters());
      REQUIRE(newest(disk)->step == 9);
      CHECK(disk.list(kDir).size() == 3);
    }
  CHECK(crashes == probe.calls * 6);
}

TEST_CASE(
    "when the disk lies about syncing, the damage is found and an older checkpoint or none is "
    "used") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    SimDisk disk;
    save(disk, 2, 1, 3, few_parameters());
    disk.lie_on_sync = true;
    save(disk, 2, 2, 3, few_parameters());
    save(disk, 2, 3, 3, few_parameters());
    uint64_t state = seed;
    disk.crash([&](uint64_t n) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      return (state >> 33) % n;
    });
    disk.lie_on_sync = false;
    const auto m = newest(disk);
    REQUIRE(m);  // nothing was removed before, so the first is still there
    check_state(disk, *m, 1, few_parameters());
  }
}

}  // namespace
}  // namespace troupe

// Damaged checkpoints, full disks, and a crash at every call.
#include "tests/support/refusal.hpp"
#include "tests/support/small_checkpoints.hpp"
#include "training/checkpoints/digest.hpp"

namespace troupe {
namespace {

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

// Checkpoints: round trips, another number of shards, those that are kept, and another run's.
#include <filesystem>

#include "tests/support/small_checkpoints.hpp"
#include "training/checkpoints/digest.hpp"

namespace troupe {
namespace {

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

}  // namespace
}  // namespace troupe

// The text of optimizers in a checkpoint: all their settings; in its first form only their kinds.
#include <doctest/doctest.h>

#include "tests/support/optimizers.hpp"
#include "chaos/sim_disk.hpp"
#include "training/checkpoints/checkpoint.hpp"
#include "training/checkpoints/digest.hpp"

namespace troupe {
namespace {

const std::string kDir = "run";

// One parameter of three elements, after five updates.
Manifest save(Disk& disk, const Optimizer& optimizer) {
  SliceState s{.slice = {.parameter = "w",
                         .dtype = DType::f32,
                         .shape = {3},
                         .offset = 0,
                         .size = 3,
                         .optimizer = optimizer},
               .version = 5,
               .next_step = 5,
               .values = Tensor::of<float>({1, 2, 3}, {3}),
               .optimizer_accumulators = {},
               .progress = replicas_at(1, 5)};
  for (const std::string& name : optimizer_accumulators(optimizer))
    s.optimizer_accumulators.emplace_back(
        name, Tensor::of<float>({4, 5, static_cast<float>(s.optimizer_accumulators.size())}, {3}));
  ShardImage image{.step = 5, .slices = {s}};
  Manifest m{.generation = next_generation(disk, kDir), .step = 5};
  m.next_steps = {{0, 5}};
  m.parameters = {{"w", DType::f32, {3}, optimizer}};
  m.files = {write_shard_file(disk, kDir, shard_file_name(m.generation, 5, 0, 1), image)};
  commit_checkpoint(disk, kDir, m);
  return m;
}

TEST_CASE("every optimizer's accumulators and version come back from a checkpoint, cut anew") {
  for (const Optimizer& optimizer : every_optimizer()) {
    CAPTURE(describe(optimizer));
    SimDisk disk;
    const Manifest m = save(disk, optimizer);
    check_optimizers(disk, kDir, m, m.parameters);
    const Slice part{.parameter = "w",
                     .dtype = DType::f32,
                     .shape = {3},
                     .offset = 2,
                     .size = 1,
                     .optimizer = optimizer};
    const SliceState s = read_slices(disk, kDir, m, {part}).at(0);
    CHECK(s.version == 5);
    const std::vector<std::string> names = optimizer_accumulators(optimizer);
    REQUIRE(s.optimizer_accumulators.size() == names.size());
    for (size_t i = 0; i < names.size(); ++i) {
      CHECK(s.optimizer_accumulators[i].first == names[i]);
      CHECK(s.optimizer_accumulators[i].second.item<float>() == static_cast<float>(i));
    }
  }
}

TEST_CASE("a checkpoint holds an optimizer's text") {
  SimDisk disk;
  const Optimizer optimizer = adam(0.25).with(cosine_decay(300, 0.5, 7));
  const Manifest m = save(disk, optimizer);
  CHECK(disk.bytes(kDir + "/" + m.files[0].name).find(describe(optimizer)) != std::string::npos);
  const std::vector<ParameterSpec> other = {{"w", DType::f32, {3}, nesterov(0.1)}};
  CHECK_THROWS_WITH_AS(check_optimizers(disk, kDir, m, other),
                       doctest::Contains("has trained parameter w with adam, the graph trains it "
                                         "with nesterov; use adam again"),
                       Error);
}

TEST_CASE("a parameter that goes on with other settings of its optimizer is named, once") {
  SimDisk disk;
  const Manifest m = save(disk, adam(0.25));
  CHECK(check_optimizers(disk, kDir, m, m.parameters).empty());
  const std::vector<ParameterSpec> other = {{"w", DType::f32, {3}, adam(0.5)}};
  CHECK(check_optimizers(disk, kDir, m, other) ==
        std::vector<std::string>{"parameter w goes on with " + describe(adam(0.5)) +
                                 "; in the checkpoint of step 5 it is " + describe(adam(0.25))});
}

// Replaces `old` by `text` and blanks, which JSON skips.
void replace(std::string& bytes, const std::string& old, std::string text) {
  const size_t at = bytes.find(old);
  REQUIRE(at != std::string::npos);
  text.resize(old.size(), ' ');
  bytes.replace(at, old.size(), text);
}

TEST_CASE("a checkpoint of the first form, with kinds of optimizers alone, is read") {
  SimDisk disk;
  Manifest m = save(disk, adam(0.25));
  std::string& shard = disk.bytes(kDir + "/" + m.files[0].name);
  replace(shard, "\"version\":\"2\"", "\"version\":\"1\"");
  replace(shard, "\\\"" + describe(adam(0.25)) + "\\\"", "\\\"adam\\\"");
  Sha256 of_shard, of_manifest;
  of_shard.add(shard);
  m.files[0].sha256 = of_shard.hex();
  std::string text = to_text(m);
  replace(text, "\"version\": 4", "\"version\": 1");
  replace(text, "\"rate_scale\": 1,", "");
  text.resize(text.rfind(",\n  \"sha256\""));
  of_manifest.add(text);
  text += ",\n  \"sha256\": \"" + of_manifest.hex() + "\"\n}\n";
  disk.bytes(kDir + "/" + manifest_name(m.generation, 5)) = text;

  std::vector<std::string> warnings;
  const auto found = find_newest(disk, kDir, warnings);
  REQUIRE(found);
  CHECK(warnings.empty());
  check_optimizers(disk, kDir, *found, m.parameters);
  CHECK(same_bits(read_parameters(disk, kDir, *found).at(0).second,
                  Tensor::of<float>({1, 2, 3}, {3})));
}

}  // namespace
}  // namespace troupe

// Checkpoints with valid hashes and with counts that no training produces.
#include <functional>

#include "tests/support/fit.hpp"
#include "training/checkpoints/checkpoint.hpp"

namespace troupe {
namespace {

// Trains a little, and writes the checkpoint, edited by `change`, as a newer one.
void forge(const std::string& dir, const std::function<void(SliceState&)>& change) {
  Fit fit(adam());
  TrainOptions options{.steps = 4, .checkpoint_dir = dir};
  Session session = Session::local(fit.graph);
  train(session, fit.all, options);
  std::vector<std::string> warnings;
  std::optional<Manifest> m = find_newest(real_disk(), dir, warnings);
  REQUIRE(m);
  ShardImage image{.epoch = m->epoch, .step = m->step};
  image.slices =
      read_slices(real_disk(), dir, *m, split_parameters({{"w", DType::f64, {1, 1}, adam()}}, 1));
  REQUIRE(image.slices.size() == 1);
  ++m->generation;
  change(image.slices[0]);
  m->files = {
      write_shard_file(real_disk(), dir, shard_file_name(m->generation, m->step, 0, 1), image)};
  commit_checkpoint(real_disk(), dir, *m);
}

// The refusal of a training that resumes from `dir`.
Refusal resumed(const std::string& dir) {
  Fit fit(adam());
  TrainOptions options{.steps = 8, .checkpoint_dir = dir, .resume = true};
  Session session = Session::local(fit.graph);
  return refusal_of([&] { train(session, fit.all, options); });
}

}  // namespace

TEST_CASE("a checkpoint with a count that leaves no room to count on is refused at once") {
  Folder folder("forged-counts");
  std::string name;
  SUBCASE("the version of a slice") {
    forge(folder.path(), [](SliceState& s) { s.version = INT64_MAX; });
    name = "version";
  }
  SUBCASE("the next step of a slice") {
    forge(folder.path(), [](SliceState& s) { s.next_step = INT64_MAX; });
    name = "next_step";
  }
  SUBCASE("the progress of a replica") {
    forge(folder.path(), [](SliceState& s) { s.progress[1].next_step = INT64_MAX; });
    name = "next_step";
  }
  const Refusal refused = resumed(folder.path());
  CHECK(refused.code == Errc::bad_data);
  has(refused.text,
      name + ": expected a whole number from 0 to 4611686018427387903, found 9223372036854775807");
}

}  // namespace troupe

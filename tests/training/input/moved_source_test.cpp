// A replica that moves reads its own place in the data, wherever it is computed.
#include <doctest/doctest.h>

#include "tests/support/engine/local_cluster.hpp"
#include "tests/training/input/classifier.hpp"

namespace troupe {
namespace {

std::string worker(int task) { return detail::concat("/job:worker/task:", task); }

}  // namespace

TEST_CASE("replicas that read a source have their own records on any worker, and the same bits") {
  const PixelFiles files;
  const Source source = files.batches();
  const TrainOptions options{.steps = 30, .move_after = std::chrono::milliseconds(50)};
  Classifier calm(3, &source);
  Session alone = Session::local(calm.graph, {.threads = 2});
  const std::string undisturbed = train(alone, calm.towers, options).weights_sha256;

  LocalCluster cluster({"/job:ps/task:0", worker(0), worker(1)});
  Classifier moved(3, &source, builtin_ops(), {worker(0), worker(1), worker(2)});
  Session session = cluster.connect(moved.graph);
  TrainOptions watched = options;
  std::vector<std::string> moves;
  bool lost = false;
  watched.on_event = [&](const TrainEvent& e) {
    if (e.kind == TrainEvent::moved) moves.push_back(e.text);
  };
  watched.on_progress = [&](const TrainProgress& p) {
    if (p.step >= 10 && !std::exchange(lost, true)) cluster.process(2).stop();
  };
  CHECK(train(session, moved.towers, watched).weights_sha256 == undisturbed);
  REQUIRE(moves.size() == 2);
  CHECK(moves[0] ==
        "replica 2 moves from /job:worker/task:2 to /job:worker/task:0: /job:worker/task:2 is not "
        "there");
  CHECK(moves[1].starts_with(
      "replica 1 moves from /job:worker/task:1 to /job:worker/task:0: /job:worker/task:1 has been "
      "away for 0."));
}

}  // namespace troupe

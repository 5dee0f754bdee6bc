// Replicas that other workers compute: the same bits, and no gradient of a place that a replica has
// left.
#include <doctest/doctest.h>

#include <future>
#include <set>
#include <string>
#include <vector>

#include "actors/master/session_state.hpp"
#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/refusal.hpp"
#include "training/loop/present_workers.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"
#include "troupe/ops/parameters.hpp"
#include "troupe/training.hpp"

namespace troupe {
namespace {

std::string worker(int64_t task) { return detail::concat("/job:worker/task:", task); }

// Towers that fit one weight, each on a worker of its own; none: all in this process.
struct Towers {
  explicit Towers(int count, bool placed) {
    for (int i = 0; i < count; ++i) {
      const auto scope = graph.scope({.name = detail::concat("tower", i),
                                      .device = placed ? worker(i) : std::string(),
                                      .replica = i});
      const Output x = placeholder(graph, DType::f64, {-1, 1}, "x");
      const Output w = parameter("w", fill(graph, {1, 1}, 0, DType::f64));
      const Output loss = reduce_mean(square(matmul(x, w) - x * 3.0));
      all.push_back({i, loss, minimize(loss, momentum(0.01)), {x}, [i](int64_t step) {
                       const double v = static_cast<double>(step % 3 + i);
                       return std::vector<Tensor>{Tensor::of<double>({v, v + 1}, {2, 1})};
                     }});
    }
  }
  Graph graph;
  std::vector<Tower> all;
};

// A step of each replica, all at one time, as each waits for the others.
void run_step(const std::vector<Callable>& steps, const std::vector<Tower>& towers, int64_t step) {
  std::vector<std::promise<RunResult>> ended(steps.size());
  for (size_t i = 0; i < steps.size(); ++i)
    steps[i].start(towers[i].batch(step), {.step = step},
                   [&ended, i](RunResult result) { ended[i].set_value(std::move(result)); });
  for (auto& one : ended) {
    const RunResult result = one.get_future().get();
    INFO(result.text);
    REQUIRE(result.code == Errc::ok);
  }
}

std::set<std::string> tasks_of(const Session& session, const Callable& call) {
  std::set<std::string> out;
  for (const PlacedNode& node : session.placement(call))
    out.insert(node.device.substr(0, node.device.find("/device")));
  return out;
}

}  // namespace

TEST_CASE("replicas that move between steps, to older processes and back, change no bit") {
  LocalCluster cluster({"/job:ps/task:0", worker(0), worker(1)});
  Towers towers(2, true);
  Session session = cluster.connect(towers.graph);
  Calls& calls = session.state().master->calls();
  std::vector<Callable> steps;
  for (const Tower& t : towers.all) steps.push_back(session.prepare({t.loss, t.update}, t.feeds));
  const std::vector<Places> moves = {{{worker(1), worker(0)}},
                                     {},
                                     {{worker(0), worker(1)}},
                                     {{worker(0), worker(1)}, {worker(1), worker(0)}},
                                     {{worker(1), worker(0)}}};
  for (int64_t step = 0; step < 10; ++step) {
    if (step % 2 == 1) calls.set_places(moves.at(static_cast<size_t>(step / 2)), {});
    run_step(steps, towers.all, step);
  }
  CHECK(tasks_of(session, steps[1]) == std::set<std::string>{worker(0)});
  Towers local(2, false);
  Session alone = Session::local(local.graph, {.threads = 2});
  std::vector<Callable> same;
  for (const Tower& t : local.all) same.push_back(alone.prepare({t.loss, t.update}, t.feeds));
  for (int64_t step = 0; step < 10; ++step) run_step(same, local.all, step);
  CHECK(same_bits(parameter_value(session, "w"), parameter_value(alone, "w")));
}

TEST_CASE("a task that has never been there is computed by the one that stands for it") {
  LocalCluster cluster({"/job:ps/task:0", worker(0)});
  Towers towers(3, true);
  Session session = cluster.connect(towers.graph);
  CHECK_THROWS_AS(session.prepare({towers.all[2].loss}, towers.all[2].feeds), Error);
  session.state().master->calls().set_places({{worker(1), worker(0)}, {worker(2), worker(0)}}, {});
  const Callable call = session.prepare({towers.all[2].loss}, towers.all[2].feeds);
  CHECK(tasks_of(session, call) == std::set<std::string>{worker(0)});
}

TEST_CASE("a training whose replicas do not move refuses a task that is not there, and says why") {
  LocalCluster cluster({"/job:ps/task:0", worker(0)});
  Towers towers(2, true);
  Session session = cluster.connect(towers.graph);
  TrainOptions options{.steps = 2};
  options.move_after = std::chrono::milliseconds(0);
  const auto refused = [&] {
    return error_text(Errc::invalid_argument, [&] { train(session, towers.all, options); });
  };
  CHECK(refused() ==
        "replica 1 is computed by /job:worker/task:1, which is not in the cluster, and moves to no "
        "other worker, because of TrainOptions::move_after of 0; start that worker before the "
        "training, or place the towers on workers that are there");
  options.move_after = std::chrono::seconds(10);
  options.compression.gradients = "topk:0.1";
  CHECK(refused().find("because of a codec with a residual, topk or sign") != std::string::npos);
}

TEST_CASE("the tasks that towers name are found, but for those whose queues hold elements") {
  Graph graph;
  const auto tower = [&](int64_t replica, const std::string& device, bool queue) {
    const auto scope = graph.scope({.device = device, .replica = replica});
    const Output w = parameter("w", fill(graph, {}, 0, DType::f64));
    const Output x =
        queue ? dequeue(make_queue(graph, {{DType::f64, {}}}))[0] : fill(graph, {}, 1, DType::f64);
    const Output loss = square(w - x);
    return Tower{.replica = replica, .loss = loss, .update = minimize(loss, sgd(0.1))};
  };
  const Tower here = tower(0, "", false), first = tower(1, worker(1) + "/device:cpu:0", false),
              second = tower(2, worker(1), false), kept = tower(3, worker(3), true);
  CHECK(named_tasks({&here, &first, &second, &kept}) == ReplicaPlaces::Named{{worker(1), {1, 2}}});
}

TEST_CASE("a call without training steps stays while its task is there, and does not leave") {
  LocalCluster cluster({"/job:ps/task:0", worker(0), worker(1)});
  Towers towers(2, true);
  Session session = cluster.connect(towers.graph);
  Calls& calls = session.state().master->calls();
  const Tower& tower = towers.all[1];
  const Callable looks = session.prepare({tower.loss}, tower.feeds),
                 trains = session.prepare({tower.loss, tower.update}, tower.feeds);
  calls.set_places({{worker(1), worker(0)}}, {});
  CHECK(tasks_of(session, looks) == std::set<std::string>{worker(1)});
  CHECK(tasks_of(session, trains) == std::set<std::string>{worker(0)});
  calls.set_places({{worker(1), worker(0)}}, {worker(1)});
  CHECK(tasks_of(session, looks) == std::set<std::string>{worker(0)});
  CHECK(looks(tower.batch(0)).size() == 1);
}

}  // namespace troupe

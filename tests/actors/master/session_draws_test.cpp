// Random numbers of runs: outside training each run draws others, a seed draws the same again, in
// any process, and training steps draw by their numbers alone.

#include <chrono>
#include <future>
#include <set>

#include "graph/base/philox.hpp"
#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {
namespace {

// One number in [0, 1).
struct Drawing {
  Graph graph;
  Output u = random_uniform(graph, {}, 0, 1, 0, DType::f64, "u");
};

double draw(Session& session, const Output& u, const RunOptions& options = {}) {
  return session.run({u}, {}, options)[0].item<double>();
}

std::vector<double> draws(Session& session, const Output& u, int runs) {
  std::vector<double> out;
  for (int i = 0; i < runs; ++i) out.push_back(draw(session, u));
  return out;
}

// The number that the node u draws in a training step.
double in_step(int64_t step) {
  const auto words = RandomStream(0, "u", step, 0).block(0);
  return unit_double(words[0], words[1]);
}

// w moves by the number that is drawn, under SGD with rate 1 from 0: w = -(sum of the numbers).
struct Training : Drawing {
  Output w = parameter("w", fill(graph, {}, 0, DType::f64));
  Output update = minimize(w * u, sgd(1));
};

}  // namespace

TEST_CASE("each run outside training draws other numbers, a new session the same ones in order") {
  Drawing one;
  Session session = Session::local(one.graph, {.threads = 1});
  const std::vector<double> got = draws(session, one.u, 70);  // more than a seat's run numbers
  CHECK(std::set<double>(got.begin(), got.end()).size() == got.size());
  Session again = Session::local(one.graph, {.threads = 1});
  const Output other = one.u + 1, nothing = fill(one.graph, {}, 1);
  for (size_t i = 0; i < got.size(); ++i) {
    CHECK(draw(again, one.u) == got[i]);
    again.run({nothing});  // draws nothing, so it does not count
  }
  CHECK(draw(again, other) == draw(session, other));
}

TEST_CASE("runs of one seed draw the same numbers, whatever ran before") {
  Drawing one;
  Session session = Session::local(one.graph, {.threads = 2});
  const double seven = draw(session, one.u, {.seed = 7});
  std::set<double> different = {seven};
  for (const int64_t seed : {int64_t{0}, int64_t{1}, int64_t{-7}, int64_t{7} << 32})
    different.insert(draw(session, one.u, {.seed = seed}));
  for (const double plain : draws(session, one.u, 5)) different.insert(plain);
  CHECK(different.size() == 10);
  CHECK(draw(session, one.u, {.seed = 7}) == seven);
  CHECK(draw(session, one.u, {.step = 3, .seed = 7}) == seven);
  const Callable call = session.prepare({one.u});
  CHECK(call({}, {.seed = 7})[0].item<double>() == seven);
  std::promise<double> started;
  call.start({}, {.seed = 7},
             [&](RunResult result) { started.set_value(result.values.at(0).item<double>()); });
  CHECK(started.get_future().get() == seven);
}

TEST_CASE("processes of one run draw by its number and seed, as one process does") {
  LocalCluster cluster({"/job:worker/task:0", "/job:worker/task:1"});
  const auto build = [](Graph& graph, bool spread) {
    std::vector<Output> out;
    for (const char* device : {"/job:worker/task:0", "/job:worker/task:1"}) {
      const auto there = graph.scope({.device = spread ? device : ""});
      out.push_back(random_uniform(graph, {}, 0, 1, 0, DType::f64, "u"));
      out.push_back(dropout(fill(graph, {64}, 1), 0.5));
    }
    return out;
  };
  Graph here, there;
  const std::vector<Output> ours = build(here, false), theirs = build(there, true);
  Session local = Session::local(here, {.threads = 1});
  Session remote = cluster.connect(there);
  for (const RunOptions& options : {RunOptions{}, RunOptions{}, RunOptions{.seed = 5}}) {
    const std::vector<Tensor> a = local.run(ours, {}, options), b = remote.run(theirs, {}, options);
    for (size_t i = 0; i < a.size(); ++i) CHECK(same_bits(a[i], b[i]));
  }
  CHECK_FALSE(same_bits(remote.run(theirs)[0], remote.run(theirs)[0]));
}

TEST_CASE("a training step draws by its number, whatever else the session runs") {
  Training t;
  Session session = Session::local(t.graph, {.threads = 1});
  double sum = 0;
  for (int64_t step = 0; step < 4; ++step) {
    draws(session, t.u, static_cast<int>(step));
    CHECK(session.run({t.u, t.update})[0].item<double>() == in_step(step));
    sum -= in_step(step);
    CHECK(session.run({t.w})[0].item<double>() == doctest::Approx(sum));
  }
  CHECK(draw(session, t.u, {.step = 2}) == in_step(2));
}

TEST_CASE("a parameter begins with the same value, however many runs drew before it") {
  const auto begins = [](int runs) {
    Drawing one;
    const Output w = parameter("w", random_uniform(one.graph, {4}, 0, 1, 3));
    Session session = Session::local(one.graph, {.threads = 1});
    draws(session, one.u, runs);
    return session.run({w})[0];
  };
  CHECK(same_bits(begins(0), begins(9)));
}

TEST_CASE("a run that reads a step which is not trained is refused at once, with the remedy") {
  Training t;
  Session session = Session::local(t.graph, {.threads = 1});
  const Output sample = t.w + t.u;
  session.run({t.update});
  CHECK(session.run({sample}, {}, {.step = 1})[0].defined());
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round < 2; ++round)
    check_invalid([&] { session.run({sample}, {}, {.step = 2}); },
                  "reads the parameters of step 2, which has not been trained (1 done)",
                  "leave RunOptions::step out, or give RunOptions::seed");
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(60));
  CHECK(draw(session, t.u, {.step = 100}) == in_step(100));  // reads no parameter
  session.run({t.update});
  CHECK(session.run({sample}, {}, {.step = 2})[0].defined());
}

}  // namespace troupe

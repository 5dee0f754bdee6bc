// The steps that a session counts for runs without train(): runs that fail, that push one parameter
// only or that read none, and that no run waits for a push that will never come.

#include <functional>
#include <future>
#include <limits>

#include "tests/support/engine/half_step.hpp"
#include "tests/support/engine/local_cluster.hpp"
#include "troupe/ops/parameters.hpp"
#include "troupe/training.hpp"

namespace troupe {
namespace {

const RunOptions kBounded{.timeout = std::chrono::seconds(30)};

// Two parameters, each one number; `x` is the gradient of both.
struct Pair {
  Graph graph;
  Output x = placeholder(graph, DType::f64, {}, "x");
  Output a = parameter("a", constant(graph, Tensor::scalar<double>(0)));
  Output b = parameter("b", constant(graph, Tensor::scalar<double>(0)));
  Output push_a = push_gradient(a, x, sgd(1), {a.node});
  Output push_b = push_gradient(b, x, sgd(1), {b.node});
  Output both = group(graph, {push_a, push_b}, "both");
  Output checked = push_gradient(a, check_finite(x), sgd(1), {a.node});
};

double value_of(Session& session, const std::string& name) {
  return parameter_values(session).at(name).item<double>();
}
Tensor number(double value) { return Tensor::scalar<double>(value); }

// In one process, and with parameters in another process.
template <class F>
void everywhere(Graph& graph, const F& test) {
  SUBCASE("in one process") {
    Session session = Session::local(graph, {.threads = 1});
    test(session);
  }
  SUBCASE("on a cluster") {
    LocalCluster cluster({"/job:ps/task:0", "/job:worker/task:0"});
    Session session = cluster.connect(graph);
    test(session);
  }
}

}  // namespace

TEST_CASE("a run that pushes one parameter alone does not hold up those that push others, too") {
  Pair p;
  everywhere(p.graph, [&](Session& session) {
    session.run({p.both}, {{p.x, number(1)}}, kBounded);
    for (int i = 0; i < 3; ++i) session.run({p.push_a}, {{p.x, number(1)}}, kBounded);
    session.run({p.both}, {{p.x, number(1)}}, kBounded);
    session.run({p.push_b}, {{p.x, number(1)}}, kBounded);
    CHECK(value_of(session, "a") == -5);
    CHECK(value_of(session, "b") == -3);
  });
}

TEST_CASE("a run that failed leaves no step behind for which the next ones wait") {
  Pair p;
  everywhere(p.graph, [&](Session& session) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    // Fails before its push, and because of its push.
    for (const Output update : {p.checked, p.both})
      CHECK(refusal_of([&] {
              session.run({update}, {{p.x, number(nan)}}, kBounded);
            }).code == Errc::bad_data);
    for (int i = 0; i < 2; ++i) session.run({p.both}, {{p.x, number(1)}}, kBounded);
    CHECK(value_of(session, "a") == -2);
    CHECK(value_of(session, "b") == -2);
  });
}

TEST_CASE(
    "a run does not wait for one that failed, or pushed less, between it and an earlier one") {
  Pair p;
  const Queue queue = make_queue(p.graph, {{DType::f64, Shape{}}});
  const Output put = enqueue(queue, {p.x}), taken = dequeue(queue)[0];
  // Begins, then waits for an element.
  const Output held = group(p.graph, {push_gradient(p.a, taken, sgd(1), {p.a.node}),
                                      push_gradient(p.b, taken, sgd(1), {p.b.node})});
  const Output fails = push_gradient(p.a, check_finite(p.x), sgd(1));
  const Output less = push_gradient(p.b, p.x, sgd(1));
  everywhere(p.graph, [&](Session& session) {
    const Callable first = session.prepare({held}), third = session.prepare({p.both}, {p.x});
    const Callable smaller = session.prepare({less}, {p.x});
    session.prepare({put}, {p.x});
    const auto started = [](const Callable& call, const std::vector<Tensor>& feeds) {
      auto end = std::make_shared<std::promise<RunResult>>();
      call.start(feeds, kBounded, [end](RunResult result) { end->set_value(std::move(result)); });
      return end->get_future();
    };
    const double nan = std::numeric_limits<double>::quiet_NaN();
    for (const bool failing : {true, false}) {
      CAPTURE(failing);
      std::vector<std::future<RunResult>> runs;
      runs.push_back(started(first, {}));
      if (failing)
        CHECK(refusal_of([&] {
                session.run({fails}, {{p.x, number(nan)}}, kBounded);
              }).code == Errc::bad_data);
      else
        runs.push_back(started(smaller, {number(1)}));
      runs.push_back(started(third, {number(1)}));
      session.run({put}, {{p.x, number(1)}}, kBounded);
      for (auto& run : runs) {
        const RunResult end = run.get();
        CHECK_MESSAGE(end.code == Errc::ok, end.text);
      }
    }
    CHECK(value_of(session, "a") == -4);
    CHECK(value_of(session, "b") == -5);
  });
}

TEST_CASE("a run ends although there is no memory to say that to those behind it") {
  Graph graph;
  constexpr int64_t kElements = 65'536;  // each half is a slice of its own, so a pull joins them
  const Output x = placeholder(graph, DType::f32, {}, "x");
  const Queue begun = make_queue(graph, {{DType::f32, Shape{}}}, {}, "begun");
  const Queue never = make_queue(graph, {{DType::f32, Shape{kElements}}}, {}, "never");
  const Output put = enqueue(begun, {x}), taken = check_finite(dequeue(begun)[0]);
  const Output v = parameter("v", fill(graph, {}, 0));
  const Output w = parameter("w", fill(graph, {kElements}, 0));
  const Output fails = push_gradient(v, taken, sgd(1));
  const Output waits = push_gradient(w, dequeue(never)[0], sgd(1));
  Session session =
      Session::local(graph, {.threads = 1, .memory_budget_bytes = 4 << 20, .parameter_shards = 2});
  const Callable first = session.prepare({fails}), second = session.prepare({waits});
  session.prepare({put}, {x});
  REQUIRE(parameter_slices(session).size() == 3);
  const auto started = [](const Callable& call) {
    auto end = std::make_shared<std::promise<RunResult>>();
    call.start({}, kBounded, [end](RunResult result) { end->set_value(std::move(result)); });
    return end->get_future();
  };
  auto oldest = started(first), behind = started(second);
  {
    Memory& memory = session.state().process->cpu().memory();
    std::vector<Tensor> hogs;
    const Refusal full = refusal_of([&] {
      for (;;) hogs.push_back(memory.make(DType::f32, Shape{kElements}));
    });
    REQUIRE(full.code == Errc::out_of_memory);
    session.run({put}, {{x, Tensor::scalar(std::numeric_limits<float>::quiet_NaN())}}, kBounded);
    REQUIRE(oldest.wait_for(std::chrono::seconds(30)) == std::future_status::ready);
  }
  CHECK(oldest.get().code == Errc::bad_data);
  session.close();
  const RunResult end = behind.get();
  CHECK_MESSAGE(end.code == Errc::cancelled, end.text);
}

TEST_CASE("a push without a read works, also as the first that is run, and many at once") {
  Graph graph;
  const Output w = parameter("w", constant(graph, number(0)));
  const Output push = push_gradient(w, constant(graph, number(1)), sgd(1));
  everywhere(graph, [&](Session& session) {
    session.run({push}, {}, kBounded);
    const Callable step = session.prepare({push});
    constexpr int kRuns = 20;
    std::vector<std::promise<RunResult>> ends(kRuns);
    for (auto& end : ends)
      step.start({}, kBounded, [&end](RunResult r) { end.set_value(std::move(r)); });
    for (auto& end : ends) {
      const RunResult result = end.get_future().get();
      CHECK_MESSAGE(result.code == Errc::ok, result.text);
    }
    CHECK(value_of(session, "w") == -1 - kRuns);
  });
}

TEST_CASE("a push that waits for a replica which went on without it fails at once, saying so") {
  Graph graph;
  std::vector<Output> both, alone;
  for (int replica = 0; replica < 2; ++replica) {
    const auto scope = graph.scope({.replica = replica});
    const Output w = parameter("w", constant(graph, number(0)));
    const Output v = parameter("v", constant(graph, number(0)));
    const Output one = constant(graph, number(1));
    alone.push_back(push_gradient(v, one, sgd(1), {v.node}));
    both.push_back(group(graph, {push_gradient(w, one, sgd(1), {w.node}), alone.back()}));
  }
  Session session = Session::local(graph, {.threads = 2});
  const auto prepared = [&](Output update) { return session.prepare({update}); };
  const Callable both0 = prepared(both[0]), both1 = prepared(both[1]), alone1 = prepared(alone[1]);
  const auto start = [&](const Callable& step) {
    auto end = std::make_shared<std::promise<RunResult>>();
    step.start({}, kBounded, [end](RunResult r) { end->set_value(std::move(r)); });
    return end->get_future();
  };
  auto waits = start(both0);  // for w of replica 1, which pushes only v
  start(alone1).get();
  auto next1 = start(both1);
  const RunResult end = waits.get();
  CHECK(end.code == Errc::stale);
  has(end.text, " on without ");  // the full text is tested in shard_sync_test.cpp
  auto next0 = start(both0);
  CHECK(next0.get().code == Errc::ok);
  CHECK(next1.get().code == Errc::ok);
  CHECK(value_of(session, "w") == -1);
  CHECK(value_of(session, "v") == -2);
}

TEST_CASE(
    "a run of a session that has just begun ends at its deadline with the node it waits for") {
  HalfStep half;
  Session session = Session::local(half.graph, {.threads = 2});
  check_error(
      Errc::timeout,
      [&] {
        session.run({half.loss, half.update}, {},
                    {.timeout = std::chrono::milliseconds(1'500), .step = 1});
      },
      "tower0/w");
}

TEST_CASE("a timeout that is not above 0 is refused") {
  Pair p;
  Session session = Session::local(p.graph, {.threads = 1});
  const Callable step = session.prepare({p.a});
  for (const int ms : {0, -5}) {
    const RunOptions options{.timeout = std::chrono::milliseconds(ms)};
    const auto refused = [&](const std::function<void()>& f) {
      const Refusal end = refusal_of(f);
      CHECK(end.code == Errc::invalid_argument);
      CHECK(end.text == detail::concat("RunOptions::timeout is ", ms,
                                       " ms; give a time above 0, or leave it out"));
    };
    refused([&] { step({}, options); });
    refused([&] { step.start({}, options, [](const RunResult&) {}); });
    refused([&] { session.run({p.b}, {}, options); });
  }
  CHECK(step({}, kBounded)[0].item<double>() == 0);
}

}  // namespace troupe

// Several iterations of a loop around another loop at a time, on one device: that they overlap, how
// many do, how they end. What they compute is in loop_in_flight_values_test.cpp, what they do where
// memory is short in loop_memory_test.cpp.
#include <doctest/doctest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/support/refusal.hpp"
#include "tests/support/stage_graphs.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/control_flow.hpp"
#include "troupe/session.hpp"

namespace troupe {
namespace {

constexpr std::chrono::seconds kPatience{20};      // nobody waits that long for what does come
constexpr std::chrono::milliseconds kNothing{30};  // for what does not come
constexpr int64_t kInner = 3;                      // trips of the loop in the loop

// What the kernels do and did. Visit begins an iteration of the inner loop and needs nothing of the
// one before, Collect ends it and does; Leave ends one of the outer loop.
struct Pace {
  enum What { work, meet, meet_inside, fill, fail, cancel };
  std::mutex mutex;  // guards the rest
  std::condition_variable changed;
  What what = work;
  int64_t begun = 0, ended = 0;  // outer iterations
  int64_t most = 0;              // of these, in flight at once, at least
  std::vector<int64_t> visited;  // by outer iteration: inner ones that have begun
  int64_t iterations = 0;        // outer ones that there will be
  int64_t wanted = 0;            // fill: how many are to be in flight before one ends
  int alone = 0;                 // that nobody came to meet
  bool failed = false;
  Cancellation cancellation;

  void becomes(What next, int64_t of = 0, int64_t want = 0) {
    std::lock_guard lock(mutex);
    what = next;
    begun = ended = most = alone = 0;
    visited.clear();
    iterations = of;
    wanted = want;
    failed = false;
  }
  template <class F>
  void wait_until(std::unique_lock<std::mutex>& lock, F&& f) {
    if (!changed.wait_for(lock, kPatience, f)) ++alone;
  }
  void visit(int64_t i, int64_t j) {
    std::unique_lock lock(mutex);
    begun = std::max(begun, i + 1);
    most = std::max(most, begun - ended);
    visited.resize(std::max(visited.size(), static_cast<size_t>(i + 1)));
    visited[static_cast<size_t>(i)] = std::max(visited[static_cast<size_t>(i)], j + 1);
    changed.notify_all();
    spin(lock);
    if (what == meet && j == 0 && i + 1 < iterations)
      wait_until(lock, [&] { return begun > i + 1; });
    if (what == fill && i == 0 && j == 0) {
      wait_until(lock, [&] { return begun >= wanted; });
      changed.wait_for(lock, kNothing, [&] { return begun > wanted; });
    }
    if (what == fail && i == 2 && j == 0) wait_until(lock, [&] { return failed; });
    if (what == fail && i == 3 && j == 1) {
      failed = true;
      changed.notify_all();
      throw Error(Errc::bad_data, "enough of iteration ", i, ", ", j);
    }
    if (what == cancel && i == 2 && j == 1) {
      wait_until(lock, [&] { return begun > i + 1; });
      lock.unlock();
      cancellation.cancel();
    }
  }
  void collect(int64_t i, int64_t j) {
    std::unique_lock lock(mutex);
    spin(lock);
    if (what == meet_inside && j + 1 < kInner)
      wait_until(lock, [&] { return visited[static_cast<size_t>(i)] > j + 1; });
  }
  void leave() {
    std::lock_guard lock(mutex);
    ++ended;
  }
  // Whatever else they do, they are costly.
  static void spin(std::unique_lock<std::mutex>& lock) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(200);
    lock.unlock();
    while (std::chrono::steady_clock::now() < until) {
    }
    lock.lock();
  }
};
std::unique_ptr<Pace> pace;

int64_t wrapped(int64_t factor, int64_t x, int64_t a) {  // factor * x + a modulo 2^64
  return static_cast<int64_t>(static_cast<uint64_t>(factor) * static_cast<uint64_t>(x) +
                              static_cast<uint64_t>(a));
}
int64_t in(KernelContext& ctx, int k) { return ctx.input(k).item<int64_t>(); }
void out(KernelContext& ctx, int64_t y) { *ctx.output(0).mutable_data<int64_t>() = y; }

void visit(KernelContext& ctx) {
  const int64_t i = in(ctx, 0), j = in(ctx, 1);
  pace->visit(i, j);
  out(ctx, 10 * i + j);
}
void collect(KernelContext& ctx) {
  pace->collect(in(ctx, 1) / 10, in(ctx, 1) % 10);
  out(ctx, wrapped(3, in(ctx, 0), in(ctx, 1)));
}
void collect_otherwise(KernelContext& ctx) { out(ctx, wrapped(5, in(ctx, 0), in(ctx, 1))); }
void leave(KernelContext& ctx) {
  pace->leave();
  out(ctx, in(ctx, 0));
}

std::shared_ptr<const Registry> paced_ops() {
  static const std::shared_ptr<const Registry> all = [] {
    auto r = std::make_shared<Registry>();
    for (const Op* op : builtin_ops()->all()) r->add(*op);
    const auto add = [&](const char* name, std::vector<std::string> inputs,
                         void (*kernel)(KernelContext&)) {
      r->add({.name = name,
              .inputs = std::move(inputs),
              .outputs = {"y"},
              .infer_shapes = [](const InferContext&) { return std::vector<Shape>{{}}; },
              .no_gradient = "whole numbers have none",
              .kernels = {{DeviceKind::cpu, DType::i64, kernel}}});
    };
    add("Visit", {"i", "j"}, visit);
    add("Collect", {"x", "e"}, collect);
    add("Leave", {"x"}, leave);
    return r;
  }();
  return all;
}

// for (i = 0, a = 1; i < n; ++i) {
//   for (j = 0, x = i; j < kInner; ++j) x = collect(x, visit(i, j));
//   a = 7 a + leave(x); }
struct Program {
  Graph graph{paced_ops()};
  Output n, a;
  explicit Program(int64_t in_flight, int64_t inside = 8) {
    pace = std::make_unique<Pace>();
    n = placeholder(graph, DType::i64, {}, "n");
    const Output zero = fill(graph, {}, 0, DType::i64), one = fill(graph, {}, 1, DType::i64);
    using Values = std::vector<Output>;
    a = while_loop(
        [&](const Values& v) { return less(v[0], n); },
        [&](const Values& v) {
          const Output x = while_loop(
              [&](const Values& w) { return less(w[0], fill(graph, {}, kInner, DType::i64)); },
              [&](const Values& w) {
                const Output e = graph.add({"Visit", {v[0], w[0]}, {}, "visit"});
                return Values{w[0] + 1, graph.add({"Collect", {w[1], e}, {}, "collect"})};
              },
              {zero, v[0]}, {.iterations_in_flight = inside, .name = "inner"})[1];
          return Values{v[0] + 1, v[1] * 7 + graph.add({"Leave", {x}, {}, "leave"})};
        },
        {zero, one}, {.iterations_in_flight = in_flight})[1];
  }
  static int64_t value(int64_t n, int64_t factor = 3) {
    int64_t a = 1;
    for (int64_t i = 0; i < n; ++i) {
      int64_t x = i;
      for (int64_t j = 0; j < kInner; ++j) x = wrapped(factor, x, 10 * i + j);
      a = wrapped(7, a, x);
    }
    return a;
  }
  Callable prepare(Session& session) {
    Callable step = session.prepare({a}, {n});
    check(step, 4);  // the second iteration of each loop is timed
    return step;
  }
  void check(const Callable& step, int64_t trips) {
    CHECK(step({Tensor::scalar(trips)})[0].item<int64_t>() == value(trips));
  }
};

int64_t used_bytes(const Session& session) { return session.device_states()[0].used_bytes; }

// A step of more iterations than could ever end is stopped by its options, and leaves nothing.
template <class F>
void check_stopped(Pace::What what, Errc code, const F& options) {
  Program program(4);
  Session session = Session::local(program.graph, {.threads = 2});
  const Callable step = program.prepare(session);
  const int64_t before = used_bytes(session);
  for (int round = 0; round < 3; ++round) {
    pace->becomes(what);
    CHECK(code_of([&] { step({Tensor::scalar(int64_t{1'000'000'000})}, options()); }) == code);
    CHECK(pace->alone == 0);
    CHECK(used_bytes(session) == before);
    pace->becomes(Pace::meet, 10);
    program.check(step, 10);
    CHECK(pace->alone == 0);
  }
}

}  // namespace

TEST_CASE("an iteration around a loop begins while the one before runs, and each meets the next") {
  for (int threads : {2, 4})
    for (int64_t inside : {1, 8}) {
      CAPTURE(threads);
      CAPTURE(inside);
      Program program(8, inside);
      Session session = Session::local(program.graph, {.threads = threads});
      const Callable step = program.prepare(session);
      for (int64_t trips : {20, 2, 1, 0, 70}) {
        CAPTURE(trips);
        pace->becomes(Pace::meet, trips);
        program.check(step, trips);
        CHECK(pace->alone == 0);
        CHECK(pace->ended == trips);
        CHECK((pace->most >= 2 || trips < 2));
      }
    }
}

TEST_CASE("a loop in an iteration in flight has iterations in flight of its own") {
  Program program(2);
  Session session = Session::local(program.graph, {.threads = 4});
  const Callable step = program.prepare(session);
  for (int round = 0; round < 3; ++round) {
    pace->becomes(Pace::meet_inside, 20);
    program.check(step, 20);
    CHECK(pace->alone == 0);
    CHECK(pace->most >= 2);
  }
}

TEST_CASE("a loop around a loop that has not been timed overlaps in its first step") {
  Program program(8);
  Session session = Session::local(program.graph, {.threads = 2});
  const Callable step = session.prepare({program.a}, {program.n});
  program.check(step, 100);
  CHECK(pace->most >= 2);
}

TEST_CASE("as many iterations around a loop are in flight as were asked for, and no more") {
  for (int64_t in_flight : {1, 2, 8, 40}) {
    CAPTURE(in_flight);
    Program program(in_flight);
    Session session = Session::local(program.graph, {.threads = 2});
    const Callable step = program.prepare(session);
    for (int round = 0; round < 2; ++round) {
      pace->becomes(Pace::fill, 45, in_flight);
      program.check(step, 45);
      CHECK(pace->alone == 0);
      // `wanted` had begun while the first one ran.
      CHECK(pace->most <= in_flight);
    }
  }
}

TEST_CASE("on one thread iterations around a loop run one after another") {
  Program program(8);
  Session session = Session::local(program.graph, {.threads = 1});
  const Callable step = program.prepare(session);
  pace->becomes(Pace::fill, 45, 1);
  program.check(step, 45);
  CHECK(pace->alone == 0);
  CHECK(pace->most == 1);
}

TEST_CASE("an error in a loop in an iteration ends the step while the iteration before runs") {
  Program program(8);
  Session session = Session::local(program.graph, {.threads = 2});
  const Callable step = program.prepare(session);
  const int64_t before = used_bytes(session);
  for (int round = 0; round < 8; ++round) {
    pace->becomes(Pace::fail);
    const Refusal refused = refusal_of([&] { step({Tensor::scalar(int64_t{50})}); });
    CHECK(refused.code == Errc::bad_data);
    has(refused.text, "enough of iteration 3, 1");
    has(refused.text, "inner/body/visit");
    has(refused.text, "the loop while/While was in iterations ");
    CHECK(pace->alone == 0);
    CHECK(used_bytes(session) == before);
    pace->becomes(Pace::meet, 10);
    program.check(step, 10);
    CHECK(pace->alone == 0);
  }
}

TEST_CASE("a step that is cancelled with iterations around a loop in flight ends") {
  check_stopped(Pace::cancel, Errc::cancelled,
                [] { return RunOptions{.cancel = &pace->cancellation}; });
}

TEST_CASE("a step whose deadline passes with iterations around a loop in flight ends") {
  check_stopped(Pace::work, Errc::timeout,
                [] { return RunOptions{.timeout = std::chrono::milliseconds(60)}; });
}

TEST_CASE("a kernel in a loop is replaced in all copies of copies") {
  Program program(4, 4);
  Session session = Session::local(program.graph, {.threads = 4});
  const Callable step = program.prepare(session);
  for (int round = 0; round < 3; ++round) program.check(step, 20);
  const std::string name = "while/body/inner/body/collect";
  CHECK(session.become(name, Kernel{DeviceKind::cpu, DType::i64, collect_otherwise}) == 1);
  for (int round = 0; round < 3; ++round)
    CHECK(step({Tensor::scalar(int64_t{20})})[0].item<int64_t>() == Program::value(20, 5));
}

namespace {

// for (i = 0, a = x, b = x; i < n; ++i) {
//   a = a + 1; for (j = 0, c = a; j < two; ++j) c = f(slow(c + 1)); b = slow(b + c); }
struct SlowLoops : StageRig {
  Output n, two, zero, x;
  SlowLoops() : StageRig(2) {
    n = input("n", Shape{});
    two = input("two", Shape{});
    zero = input("zero", Shape{});
    x = input("x");
    using Values = std::vector<Output>;
    const Values end = while_loop(
        [&](const Values& v) {
          return op("Less", {v[0], n});
        },
        [&](const Values& v) {
          const Output a = op("AddOne", {v[1]});
          const Output c = while_loop(
              [&](const Values& w) {
                return op("Less", {w[0], two});
              },
              [&](const Values& w) {
                const Output slow = op("Slow", {op("AddOne", {w[1]})}, "slow");
                return Values{op("AddOne", {w[0]}), op("Flaky", {slow}, "f")};
              },
              {zero, a}, {.iterations_in_flight = 4, .name = "inner"})[1];
          return Values{op("AddOne", {v[0]}), a, op("Slow", {op("Add", {v[2], c})})};
        },
        {zero, x, x}, {.iterations_in_flight = 4});
    build({end[1], end[2]}, {n, two, zero, x});
    knobs().work = 30'000;
  }
  static std::vector<Tensor> fed(int32_t trips) {
    return {Tensor::scalar(trips), Tensor::scalar(int32_t{2}), Tensor::scalar(int32_t{0}),
            ints({3, 7})};
  }
};

}  // namespace

TEST_CASE_FIXTURE(SlowLoops, "op actors may be killed while iterations around a loop fly") {
  const std::vector<Tensor> want = run(fed(8));
  run(fed(8));
  const int64_t before = used_bytes();
  const size_t copied = client().copied_nodes();
  CHECK(copied > 0);
  for (int i = 0; i < 40; ++i) {
    Run step(*this, 100 + i, fed(8));
    std::thread killing([&] {
      for (uint32_t k = 0; k < client().node_count(); ++k)
        caf::anon_send_exit(client().op_actor(k), caf::exit_reason::kill);
    });
    step.fire();
    killing.join();
    CHECK(step.finish().code == Errc::ok);
    CHECK(same_bits(step.values[0], want[0]));
    CHECK(same_bits(step.values[1], want[1]));
  }
  CHECK(used_bytes() == before);
}

TEST_CASE_FIXTURE(SlowLoops,
                  "a kernel that throws in a loop in an iteration in flight runs again") {
  const std::vector<Tensor> want = run(fed(8));
  const int64_t before = used_bytes();
  for (int i = 0; i < 10; ++i) {
    knobs().failures = kKernelRestartsMax;
    const std::vector<Tensor> got = run(fed(8));
    REQUIRE(last.code == Errc::ok);
    CHECK(same_bits(got[0], want[0]));
    CHECK(same_bits(got[1], want[1]));
    knobs().failures = kKernelRestartsMax + 1;
    run(fed(8));
    CHECK(last.code == Errc::io);
    CHECK_MESSAGE(contains(last.text, "inner/body/f on"), last.text);
    knobs().failures = 0;
  }
  CHECK(used_bytes() == before);
}

TEST_CASE_FIXTURE(SlowLoops, "iterations around a loop survive a cancel at any moment") {
  const std::vector<Tensor> want = run(fed(8));
  run(fed(8));
  const int64_t before = used_bytes();
  int cancelled = 0;
  for (int i = 0; i < 100; ++i) {
    const int64_t number = 1'000 + i;
    std::atomic<bool> armed{false};
    std::thread cancelling([&] {
      while (!armed) std::this_thread::yield();
      for (int spin = 0; spin < 2'000 * i; ++spin) armed.load();
      client().cancel(number, Errc::cancelled, "enough");
    });
    Run step(*this, number, fed(8));
    armed = true;
    step.fire();
    const StepResult result = step.finish();
    cancelling.join();
    if (result.code == Errc::ok)
      CHECK(same_bits(step.values[1], want[1]));
    else
      ++cancelled;
    CHECK((result.code == Errc::ok || result.code == Errc::cancelled));
  }
  CHECK(cancelled > 0);
  CHECK(used_bytes() == before);
}

}  // namespace troupe

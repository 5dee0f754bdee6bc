// Several iterations of a loop around another loop at a time, on one device: that they overlap, how
// many do, how they end. What they compute is in loop_in_flight_values_test.cpp, what they do where
// memory is short in loop_memory_test.cpp.
#include <doctest/doctest.h>

#include "tests/support/engine/paced_loops.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/control_flow.hpp"

namespace troupe {
namespace {

constexpr int64_t kInner = 3;  // trips of the loop in the loop

// Visit begins an iteration of the inner loop and needs nothing of the one before, Collect ends it
// and does; Leave ends one of the outer loop and needs nothing of the one before that.
struct NestedPace final : Pace {
  std::vector<int64_t> visited;  // by outer iteration: inner ones that have begun
  std::vector<bool> left;        // by outer iteration

  void visit(int64_t i, int64_t j) {
    Lock lock(mutex);
    begin(i);
    visited.resize(std::max(visited.size(), static_cast<size_t>(i + 1)));
    visited[static_cast<size_t>(i)] = std::max(visited[static_cast<size_t>(i)], j + 1);
    spin(lock);
    if (what == meet && j == 0 && i + 1 < iterations) meet_next(lock, i);
    if (what == fill && i == 0 && j == 0) wait_until_full(lock);
    if (what == fail && i == 2 && j == 0) wait_until_failed(lock);
    if (what == fail && i == 3 && j == 1) throw_of(i, ", ", j);
    if (what == cancel && i == 2 && j == 1) {
      meet_next(lock, i);
      cancel_now(lock);
    }
  }
  void collect(int64_t i, int64_t j) {
    Lock lock(mutex);
    spin(lock);
    if (what == meet_inside && j + 1 < kInner)
      wait_until(lock, [&] { return visited[static_cast<size_t>(i)] > j + 1; });
  }
  void leave(int64_t i) {
    std::lock_guard lock(mutex);
    left.resize(std::max(left.size(), static_cast<size_t>(i + 1)));
    left[static_cast<size_t>(i)] = true;
    while (static_cast<size_t>(ended) < left.size() && left[static_cast<size_t>(ended)]) ++ended;
  }

 private:
  void clear() override {
    visited.clear();
    left.clear();
  }
};
std::unique_ptr<NestedPace> pace;

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
  pace->leave(in(ctx, 0));
  out(ctx, in(ctx, 1));
}

// for (i = 0, a = 1; i < n; ++i) {
//   for (j = 0, x = i; j < kInner; ++j) x = collect(x, visit(i, j));
//   a = 7 a + leave(i, x); }
struct Program {
  Graph graph{builtin_ops_and({{"Visit", {"i", "j"}, visit},
                               {"Collect", {"x", "e"}, collect},
                               {"Leave", {"i", "x"}, leave}})};
  Output n, a;
  explicit Program(int64_t in_flight, int64_t inside = 8) {
    pace = std::make_unique<NestedPace>();
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
          return Values{v[0] + 1, v[1] * 7 + graph.add({"Leave", {v[0], x}, {}, "leave"})};
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
  void check(const Callable& step, int64_t trips) const {
    CHECK(step({Tensor::scalar(trips)})[0].item<int64_t>() == value(trips));
  }
};

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
      CHECK(pace->most == in_flight);
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
  check_failed<Program>(pace, {"enough of iteration 3, 1", "inner/body/visit"});
}

TEST_CASE("a step that is cancelled with iterations around a loop in flight ends") {
  check_cancelled<Program>(pace);
}

TEST_CASE("a step whose deadline passes with iterations around a loop in flight ends") {
  check_late<Program>(pace);
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
  check_survives_kills(*this, fed(8));
}

TEST_CASE_FIXTURE(SlowLoops,
                  "a kernel that throws in a loop in an iteration in flight runs again") {
  check_survives_throws(*this, fed(8), "while/body/inner/body/f");
}

TEST_CASE_FIXTURE(SlowLoops, "iterations around a loop survive a cancel at any moment") {
  check_survives_cancels(*this, fed(8));
}

}  // namespace troupe

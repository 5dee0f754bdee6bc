// Several iterations of a loop at a time on one device: that they overlap, how many do, how they
// end. What they compute is in loop_in_flight_values_test.cpp.
#include <doctest/doctest.h>

#include "tests/support/engine/paced_loops.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/control_flow.hpp"

namespace troupe {
namespace {

// Early begins an iteration, and Late ends it; Early of the next one needs nothing of Late.
struct TwoPaces final : Pace {
  int64_t late_begun = 0;  // iterations

  void early(int64_t iteration) {
    Lock lock(mutex);
    begin(iteration);
    spin(lock);
    const auto before_runs = [&] { return late_begun >= iteration; };
    if (what == meet && iteration > 0) wait_until(lock, before_runs);
    if (what == fail && iteration == 3) {
      wait_until(lock, before_runs);
      throw_of(iteration);
    }
  }
  void late(int64_t iteration) {
    Lock lock(mutex);
    ++late_begun;
    changed.notify_all();
    spin(lock);
    if (what == meet && iteration + 1 < iterations) meet_next(lock, iteration);
    if (what == fill && iteration == 0) wait_until_full(lock);
    if (what == fail && iteration == 2) wait_until_failed(lock);
    if (what == cancel && iteration == 2) {
      meet_next(lock, iteration);
      cancel_now(lock);
    }
    ++ended;  // Late of the one before has run
  }

 private:
  void clear() override { late_begun = 0; }
};
std::unique_ptr<TwoPaces> pace;

// y = x + 1, where x is the number of the iteration.
void early(KernelContext& ctx) {
  const int64_t x = ctx.input(0).item<int64_t>();
  pace->early(x);
  *ctx.output(0).mutable_data<int64_t>() = x + 1;
}
// y = 3 * x + a, where a is what Early made.
void late(KernelContext& ctx) {
  const int64_t x = ctx.input(0).item<int64_t>(), a = ctx.input(1).item<int64_t>();
  pace->late(a - 1);
  *ctx.output(0).mutable_data<int64_t>() = wrapped(3, x, a);
}
// y = 5 * x + a
void later(KernelContext& ctx) {
  const int64_t x = ctx.input(0).item<int64_t>(), a = ctx.input(1).item<int64_t>();
  *ctx.output(0).mutable_data<int64_t>() = wrapped(5, x, a);
}

// for (i = 0, a = 0, b = 1; i < n; ++i) { a = early(a); b = late(b, a); }
struct Program {
  Graph graph{builtin_ops_and({{"Early", {"x"}, early}, {"Late", {"x", "a"}, late}})};
  Output n, a, b;
  explicit Program(int64_t in_flight) {
    pace = std::make_unique<TwoPaces>();
    n = placeholder(graph, DType::i64, {}, "n");
    const Output zero = fill(graph, {}, 0, DType::i64), one = fill(graph, {}, 1, DType::i64);
    const std::vector<Output> end = while_loop(
        [&](const std::vector<Output>& v) { return less(v[0], n); },
        [&](const std::vector<Output>& v) {
          const Output next = graph.add({"Early", {v[1]}, {}, "early"});
          return std::vector<Output>{v[0] + 1, next, graph.add({"Late", {v[2], next}, {}, "late"})};
        },
        {zero, zero, one}, {.iterations_in_flight = in_flight});
    a = end[1];
    b = end[2];
  }
  static int64_t value(int64_t n, int64_t changed_at = 1'000'000) {
    int64_t b = 1;
    for (int64_t i = 0; i < n; ++i) b = wrapped(i < changed_at ? 3 : 5, b, i + 1);
    return b;
  }
  Callable prepare(Session& session) {
    Callable step = session.prepare({a, b}, {n});
    check(step, 4);  // the second iteration is timed
    return step;
  }
  void check(const Callable& step, int64_t trips) const {
    const std::vector<Tensor> got = step({Tensor::scalar(trips)});
    CHECK(got[0].item<int64_t>() == trips);
    CHECK(got[1].item<int64_t>() == value(trips));
  }
};

}  // namespace

TEST_CASE("an iteration begins while the one before runs, and each meets the next") {
  for (int threads : {2, 4}) {
    CAPTURE(threads);
    Program program(8);
    Session session = Session::local(program.graph, {.threads = threads});
    const Callable step = program.prepare(session);
    for (int64_t trips : {20, 2, 1, 0, 150}) {
      CAPTURE(trips);
      pace->becomes(Pace::meet, trips);
      program.check(step, trips);
      CHECK(pace->alone == 0);
      CHECK(pace->ended == trips);
      CHECK((pace->most >= 2 || trips < 2));
    }
  }
}

TEST_CASE("a loop that has not been timed overlaps from its third iteration on") {
  Program program(8);
  Session session = Session::local(program.graph, {.threads = 2});
  program.prepare(session);
  Session another = Session::local(program.graph, {.threads = 2});
  const Callable step = another.prepare({program.a, program.b}, {program.n});
  pace->becomes(Pace::work);
  program.check(step, 200);
  CHECK(pace->most >= 2);
}

TEST_CASE("as many iterations are in flight as were asked for, and no more") {
  for (int64_t in_flight : {2, 8, 70}) {
    CAPTURE(in_flight);
    const int64_t most = std::min<int64_t>(in_flight, 64);
    Program program(in_flight);
    Session session = Session::local(program.graph, {.threads = 2});
    const Callable step = program.prepare(session);
    for (int round = 0; round < 2; ++round) {
      pace->becomes(Pace::fill, 70, most);
      program.check(step, 70);
      CHECK(pace->alone == 0);
      CHECK(pace->most == most);
    }
  }
}

TEST_CASE("with one iteration in flight, or one thread, they run one after another") {
  for (int threads : {1, 2, 4})
    for (int64_t in_flight : {1, 8}) {
      if (threads > 1 && in_flight > 1) continue;
      CAPTURE(threads);
      CAPTURE(in_flight);
      Program program(in_flight);
      Session session = Session::local(program.graph, {.threads = threads});
      const Callable step = program.prepare(session);
      pace->becomes(Pace::fill, 100, 1);
      program.check(step, 100);
      CHECK(pace->alone == 0);
      CHECK(pace->most == 1);
    }
}

TEST_CASE("an error in an iteration ends the step while the one before runs") {
  check_failed<Program>(pace, {"enough of iteration 3", "while/body/early"});
}

TEST_CASE("a step that is cancelled with iterations in flight ends, and the next one runs") {
  check_cancelled<Program>(pace);
}

TEST_CASE("a step whose deadline passes with iterations in flight ends, and the next one runs") {
  check_late<Program>(pace);
}

TEST_CASE("a kernel is replaced while iterations are in flight, for all of them at once") {
  Program program(8);
  Session session = Session::local(program.graph, {.threads = 2});
  const Callable step = program.prepare(session);
  constexpr int64_t kTrips = 25;  // 5^25 fits
  for (int round = 0; round < 10; ++round) {
    CHECK(session.become("while/body/late", Kernel{DeviceKind::cpu, DType::i64, late}) == 1);
    pace->becomes(Pace::work);
    int64_t got = 0;
    std::thread running([&] { got = step({Tensor::scalar(kTrips)})[1].item<int64_t>(); });
    {
      std::unique_lock lock(pace->mutex);
      CHECK(pace->changed.wait_for(lock, Pace::kPatience, [] { return pace->begun > 5; }));
    }
    CHECK(session.become("while/body/late", Kernel{DeviceKind::cpu, DType::i64, later}) == 1);
    running.join();
    bool one = false;  // iteration it was replaced in
    for (int64_t at = 0; at <= kTrips; ++at) one |= got == Program::value(kTrips, at);
    CHECK(one);
    CHECK(step({Tensor::scalar(kTrips)})[1].item<int64_t>() == Program::value(kTrips, 0));
  }
}

// for (i = 0, a = x, b = x; i < n; ++i) { a = slow(a + 1); b = slow(b + f(a)); }
struct SlowLoop : StageRig {
  Output n, zero, x;
  SlowLoop() : StageRig(2) {
    n = input("n", Shape{});
    zero = input("zero", Shape{});
    x = input("x");
    const std::vector<Output> end = while_loop(
        [&](const std::vector<Output>& v) {
          return op("Less", {v[0], n});
        },
        [&](const std::vector<Output>& v) {
          const Output a = op("Slow", {op("AddOne", {v[1]})}, "slow");
          return std::vector<Output>{op("AddOne", {v[0]}), a,
                                     op("Slow", {op("Add", {v[2], op("Flaky", {a}, "f")})})};
        },
        {zero, x, x}, {.iterations_in_flight = 4});
    build({end[1], end[2]}, {n, zero, x});
    knobs().work = 30'000;
  }
  static std::vector<Tensor> fed(int32_t trips) {
    return {Tensor::scalar(trips), Tensor::scalar(int32_t{0}), ints({3, 7})};
  }
};

TEST_CASE_FIXTURE(SlowLoop, "op actors may be killed while iterations are in flight") {
  check_survives_kills(*this, fed(12));
}

TEST_CASE_FIXTURE(SlowLoop,
                  "a kernel that throws in an iteration in flight runs again, in a step "
                  "as often as one that throws in any other") {
  check_survives_throws(*this, fed(12), "while/body/f");
}

TEST_CASE_FIXTURE(SlowLoop, "iterations in flight survive a cancel at any moment") {
  check_survives_cancels(*this, fed(12));
}

}  // namespace troupe

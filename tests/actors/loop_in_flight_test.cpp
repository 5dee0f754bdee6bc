// Several iterations of a loop at a time on one device: that they overlap, how many do, how they
// end. What they compute is in loop_in_flight_values_test.cpp.
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

// What the two kernels of a body do and did. Early begins an iteration, and Late ends it; Early of
// the next one needs nothing of Late.
struct Pace {
  enum What { work, meet, fill, fail, cancel };
  std::mutex mutex;  // guards the rest
  std::condition_variable changed;
  What what = work;
  int64_t begun = 0, late_begun = 0, ended = 0;  // iterations
  int64_t most = 0;                              // in flight at once, at least
  int64_t iterations = 0;
  int64_t wanted = 0;  // fill: how many are to be in flight before one ends
  int alone = 0;       // that nobody came to meet
  bool failed = false;
  Cancellation cancellation;

  void becomes(What next, int64_t of = 0, int64_t want = 0) {
    std::lock_guard lock(mutex);
    what = next;
    begun = late_begun = ended = most = alone = 0;
    iterations = of;
    wanted = want;
    failed = false;
  }
  template <class F>
  void wait_until(std::unique_lock<std::mutex>& lock, F&& f) {
    if (!changed.wait_for(lock, kPatience, f)) ++alone;
  }
  void early(int64_t iteration) {
    std::unique_lock lock(mutex);
    ++begun;
    most = std::max(most, begun - ended);
    changed.notify_all();
    spin(lock);
    if (what == meet && iteration > 0) wait_until(lock, [&] { return late_begun >= iteration; });
    if (what == fail && iteration == 3) {
      wait_until(lock, [&] { return late_begun >= iteration; });  // that of the one before runs
      failed = true;
      changed.notify_all();
      throw Error(Errc::bad_data, "enough of iteration ", iteration);
    }
  }
  void late(int64_t iteration) {
    std::unique_lock lock(mutex);
    ++late_begun;
    changed.notify_all();
    spin(lock);
    if (what == meet && iteration + 1 < iterations)
      wait_until(lock, [&] { return begun > iteration + 1; });
    if (what == fill && iteration == 0) {
      wait_until(lock, [&] { return begun >= wanted; });
      changed.wait_for(lock, kNothing, [&] { return begun > wanted; });
    }
    if (what == fail && iteration == 2) wait_until(lock, [&] { return failed; });
    if (what == cancel && iteration == 2) {
      wait_until(lock, [&] { return begun > iteration + 1; });
      lock.unlock();
      cancellation.cancel();
      lock.lock();
    }
    ++ended;
  }
  // Whatever else they do, they are costly.
  static void spin(std::unique_lock<std::mutex>& lock) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(300);
    lock.unlock();
    while (std::chrono::steady_clock::now() < until) {
    }
    lock.lock();
  }
};
std::unique_ptr<Pace> pace;

// y = x + 1, where x is the number of the iteration.
void early(KernelContext& ctx) {
  const int64_t x = ctx.input(0).item<int64_t>();
  pace->early(x);
  *ctx.output(0).mutable_data<int64_t>() = x + 1;
}
// factor * x + a modulo 2^64: many iterations pass int64.
int64_t wrapped(int64_t factor, int64_t x, int64_t a) {
  return static_cast<int64_t>(static_cast<uint64_t>(factor) * static_cast<uint64_t>(x) +
                              static_cast<uint64_t>(a));
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

std::shared_ptr<const Registry> paced_ops() {
  static const std::shared_ptr<const Registry> all = [] {
    auto r = std::make_shared<Registry>();
    for (const Op* op : builtin_ops()->all()) r->add(*op);
    const auto same = [](const InferContext& ctx) { return std::vector<Shape>{ctx.input(0)}; };
    r->add({.name = "Early",
            .inputs = {"x"},
            .outputs = {"y"},
            .infer_shapes = same,
            .kernels = {{DeviceKind::cpu, DType::i64, early}}});
    r->add({.name = "Late",
            .inputs = {"x", "a"},
            .outputs = {"y"},
            .infer_shapes = same,
            .kernels = {{DeviceKind::cpu, DType::i64, late}}});
    return r;
  }();
  return all;
}

// for (i = 0, a = 0, b = 1; i < n; ++i) { a = early(a); b = late(b, a); }
struct Program {
  Graph graph{paced_ops()};
  Output n, a, b;
  explicit Program(int64_t in_flight) {
    pace = std::make_unique<Pace>();
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
  void check(const Callable& step, int64_t trips) {
    const std::vector<Tensor> got = step({Tensor::scalar(trips)});
    CHECK(got[0].item<int64_t>() == trips);
    CHECK(got[1].item<int64_t>() == value(trips));
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
  pace->becomes(what);
  CHECK(code_of([&] { step({Tensor::scalar(int64_t{1'000'000'000})}, options()); }) == code);
  CHECK(pace->alone == 0);
  CHECK(used_bytes(session) == before);
  pace->becomes(Pace::meet, 10);
  program.check(step, 10);
  CHECK(pace->alone == 0);
}

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
  Program program(8);
  Session session = Session::local(program.graph, {.threads = 2});
  const Callable step = program.prepare(session);
  const int64_t before = used_bytes(session);
  for (int round = 0; round < 8; ++round) {
    pace->becomes(Pace::fail);
    const Refusal refused = refusal_of([&] { step({Tensor::scalar(int64_t{50})}); });
    CHECK(refused.code == Errc::bad_data);
    has(refused.text, "enough of iteration 3");
    has(refused.text, "while/body/early");
    has(refused.text, "the loop while/While was in iterations ");
    CHECK(pace->alone == 0);
    CHECK(used_bytes(session) == before);
    pace->becomes(Pace::meet, 10);
    program.check(step, 10);
    CHECK(pace->alone == 0);
  }
}

TEST_CASE("a step that is cancelled with iterations in flight ends, and the next one runs") {
  check_stopped(Pace::cancel, Errc::cancelled,
                [] { return RunOptions{.cancel = &pace->cancellation}; });
}

TEST_CASE("a step whose deadline passes with iterations in flight ends, and the next one runs") {
  check_stopped(Pace::work, Errc::timeout,
                [] { return RunOptions{.timeout = std::chrono::milliseconds(100)}; });
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
      CHECK(pace->changed.wait_for(lock, kPatience, [] { return pace->begun > 5; }));
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
  std::vector<Tensor> fed(int32_t trips) {
    return {Tensor::scalar(trips), Tensor::scalar(int32_t{0}), ints({3, 7})};
  }
};

TEST_CASE_FIXTURE(SlowLoop, "op actors may be killed while iterations are in flight") {
  const std::vector<Tensor> want = run(fed(12));
  const int64_t before = used_bytes();
  for (int i = 0; i < 40; ++i) {
    Run step(*this, 100 + i, fed(12));
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

TEST_CASE_FIXTURE(SlowLoop,
                  "a kernel that throws in an iteration in flight runs again, in a step "
                  "as often as one that throws in any other") {
  const std::vector<Tensor> want = run(fed(12));
  const int64_t before = used_bytes();
  for (int i = 0; i < 10; ++i) {
    knobs().failures = kKernelRestartsMax;
    const std::vector<Tensor> got = run(fed(12));
    REQUIRE(last.code == Errc::ok);
    CHECK(same_bits(got[0], want[0]));
    CHECK(same_bits(got[1], want[1]));
    knobs().failures = kKernelRestartsMax + 1;
    run(fed(12));
    CHECK(last.code == Errc::io);
    CHECK_MESSAGE(contains(last.text, "node while/body/f on"), last.text);
    knobs().failures = 0;
  }
  CHECK(used_bytes() == before);
}

TEST_CASE_FIXTURE(SlowLoop, "iterations in flight survive a cancel at any moment") {
  const std::vector<Tensor> want = run(fed(12));
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
    Run step(*this, number, fed(12));
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

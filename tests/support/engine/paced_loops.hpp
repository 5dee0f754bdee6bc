// PacedLoops: what the tests of loops with several iterations in flight have in common. A Program
// is a graph with a loop whose kernels work at a Pace; a rig is a StageRig with a slow loop, to be
// killed, to throw and to be cancelled.
#pragma once

#include <doctest/doctest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "tests/support/refusal.hpp"
#include "tests/support/engine/stage_graphs.hpp"
#include "troupe/session.hpp"

namespace troupe {

// What the kernels of a loop do and did. What is said of iterations is of the outermost loop. A
// test derives from it, with a member per kernel.
struct Pace {
  enum What { work, meet, meet_inside, fill, fail, cancel };
  static constexpr std::chrono::seconds kPatience{20};  // nobody waits that long for what does come
  static constexpr std::chrono::milliseconds kNothing{30};  // for what does not come

  std::mutex mutex;  // guards the rest
  std::condition_variable changed;
  What what = work;
  int64_t begun = 0;       // iterations
  int64_t ended = 0;       // these, and all before them
  int64_t most = 0;        // in flight at once, at least
  int64_t iterations = 0;  // that there will be
  int64_t wanted = 0;      // fill: how many are to be in flight before one ends
  int alone = 0;           // that nobody came to meet
  bool failed = false;
  Cancellation cancellation;

  virtual ~Pace() = default;
  void becomes(What next, int64_t of = 0, int64_t want = 0) {
    std::lock_guard lock(mutex);
    what = next;
    begun = ended = most = alone = 0;
    iterations = of;
    wanted = want;
    failed = false;
    clear();
  }

 protected:
  using Lock = std::unique_lock<std::mutex>;
  virtual void clear() {}
  void begin(int64_t iteration) {
    begun = std::max(begun, iteration + 1);
    most = std::max(most, begun - ended);
    changed.notify_all();
  }
  template <class F>
  void wait_until(Lock& lock, F&& f) {
    if (!changed.wait_for(lock, kPatience, f)) ++alone;
  }
  // The next iteration is to begin while this one runs.
  void meet_next(Lock& lock, int64_t iteration) {
    wait_until(lock, [&] { return begun > iteration + 1; });
  }
  void wait_until_full(Lock& lock) {
    wait_until(lock, [&] { return begun >= wanted; });
    changed.wait_for(lock, kNothing, [&] { return begun > wanted; });
  }
  void wait_until_failed(Lock& lock) {
    wait_until(lock, [&] { return failed; });
  }
  template <class... Iteration>
  [[noreturn]] void throw_of(Iteration... iteration) {
    failed = true;
    changed.notify_all();
    throw Error(Errc::bad_data, "enough of iteration ", iteration...);
  }
  void cancel_now(Lock& lock) {
    lock.unlock();
    cancellation.cancel();
    lock.lock();
  }
  // Whatever else they do, they are costly.
  static void spin(Lock& lock) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(250);
    lock.unlock();
    while (std::chrono::steady_clock::now() < until) {
    }
    lock.lock();
  }
};

inline int64_t wrapped(int64_t factor, int64_t x, int64_t a) {  // factor * x + a modulo 2^64
  return static_cast<int64_t>(static_cast<uint64_t>(factor) * static_cast<uint64_t>(x) +
                              static_cast<uint64_t>(a));
}

// The built-in ops and `more`, of scalars of i64 each.
struct PacedOp {
  const char* name;
  std::vector<std::string> inputs;
  void (*kernel)(KernelContext&);
};
inline std::shared_ptr<const Registry> builtin_ops_and(std::vector<PacedOp> more) {
  auto all = std::make_shared<Registry>();
  for (const Op* op : builtin_ops()->all()) all->add(*op);
  for (PacedOp& op : more)
    all->add({.name = op.name,
              .inputs = std::move(op.inputs),
              .outputs = {"y"},
              .infer_shapes = [](const InferContext&) { return std::vector<Shape>{{}}; },
              .no_gradient = "whole numbers have none",
              .kernels = {{DeviceKind::cpu, DType::i64, op.kernel}}});
  return all;
}

inline int64_t used_bytes(const Session& session) { return session.device_states()[0].used_bytes; }

// The step that was stopped has left nothing, and the next one runs.
template <class Program>
void check_next(const Program& program, const Session& session, const Callable& step, Pace& pace,
                int64_t used_before) {
  CHECK(pace.alone == 0);
  CHECK(used_bytes(session) == used_before);
  pace.becomes(Pace::meet, 10);
  program.check(step, 10);
  CHECK(pace.alone == 0);
}

// A step of more iterations than could ever end is stopped by its options. `pace` is the one that a
// Program makes.
template <class Program, class P, class F>
void check_stopped(const std::unique_ptr<P>& pace, Pace::What what, Errc code, const F& options) {
  Program program(4);
  Session session = Session::local(program.graph, {.threads = 2});
  const Callable step = program.prepare(session);
  const int64_t before = used_bytes(session);
  for (int round = 0; round < 3; ++round) {
    pace->becomes(what);
    CHECK(code_of([&] { step({Tensor::scalar(int64_t{1'000'000'000})}, options()); }) == code);
    check_next(program, session, step, *pace, before);
  }
}
template <class Program, class P>
void check_cancelled(const std::unique_ptr<P>& pace) {
  check_stopped<Program>(pace, Pace::cancel, Errc::cancelled,
                         [&] { return RunOptions{.cancel = &pace->cancellation}; });
}
template <class Program, class P>
void check_late(const std::unique_ptr<P>& pace) {
  check_stopped<Program>(pace, Pace::work, Errc::timeout,
                         [] { return RunOptions{.timeout = std::chrono::milliseconds(60)}; });
}

// An iteration throws while the one before it runs; the texts are what the error says.
template <class Program, class P>
void check_failed(const std::unique_ptr<P>& pace, const std::vector<std::string>& texts) {
  Program program(8);
  Session session = Session::local(program.graph, {.threads = 2});
  const Callable step = program.prepare(session);
  const int64_t before = used_bytes(session);
  for (int round = 0; round < 8; ++round) {
    pace->becomes(Pace::fail);
    const Refusal refused = refusal_of([&] { step({Tensor::scalar(int64_t{50})}); });
    CHECK(refused.code == Errc::bad_data);
    for (const std::string& text : texts) has(refused.text, text);
    has(refused.text, "the loop while/While was in iterations ");
    check_next(program, session, step, *pace, before);
  }
}

// Op actors are killed while the step runs.
inline void check_survives_kills(StageRig& rig, const std::vector<Tensor>& fed) {
  const std::vector<Tensor> want = rig.run(fed);
  rig.run(fed);
  const int64_t before = rig.used_bytes();
  CHECK(rig.client().copied_nodes() > 0);
  for (int i = 0; i < 40; ++i) {
    StageRig::Run step(rig, 100 + i, fed);
    std::thread killing([&] {
      for (uint32_t k = 0; k < rig.client().node_count(); ++k)
        caf::anon_send_exit(rig.client().op_actor(k), caf::exit_reason::kill);
    });
    step.fire();
    killing.join();
    CHECK(step.finish().code == Errc::ok);
    for (size_t k = 0; k < want.size(); ++k) CHECK(same_bits(step.values[k], want[k]));
  }
  CHECK(rig.used_bytes() == before);
}

// The Flaky kernel of the node throws as often as a step bears, then once more.
inline void check_survives_throws(StageRig& rig, const std::vector<Tensor>& fed,
                                  const std::string& node) {
  const std::vector<Tensor> want = rig.run(fed);
  const int64_t before = rig.used_bytes();
  for (int i = 0; i < 10; ++i) {
    knobs().failures = kKernelRestartsMax;
    const std::vector<Tensor> got = rig.run(fed);
    REQUIRE(rig.last.code == Errc::ok);
    for (size_t k = 0; k < want.size(); ++k) CHECK(same_bits(got[k], want[k]));
    knobs().failures = kKernelRestartsMax + 1;
    rig.run(fed);
    CHECK(rig.last.code == Errc::io);
    CHECK_MESSAGE(contains(rig.last.text, "node " + node + " on"), rig.last.text);
    knobs().failures = 0;
  }
  CHECK(rig.used_bytes() == before);
}

// Each step is cancelled a little later.
inline void check_survives_cancels(StageRig& rig, const std::vector<Tensor>& fed) {
  const std::vector<Tensor> want = rig.run(fed);
  rig.run(fed);
  const int64_t before = rig.used_bytes();
  int cancelled = 0;
  for (int i = 0; i < 100; ++i) {
    const int64_t number = 1'000 + i;
    std::atomic<bool> armed{false};
    std::thread cancelling([&] {
      while (!armed) std::this_thread::yield();
      for (int spin = 0; spin < 2'000 * i; ++spin) armed.load();
      rig.client().cancel(number, Errc::cancelled, "enough");
    });
    StageRig::Run step(rig, number, fed);
    armed = true;
    step.fire();
    const StepResult result = step.finish();
    cancelling.join();
    if (result.code == Errc::ok)
      CHECK(same_bits(step.values.back(), want.back()));
    else
      ++cancelled;
    CHECK((result.code == Errc::ok || result.code == Errc::cancelled));
  }
  CHECK(cancelled > 0);
  CHECK(rig.used_bytes() == before);
}

}  // namespace troupe

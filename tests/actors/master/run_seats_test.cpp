// Runs of a call that is one executor of this process: threads that run it share as little as
// possible, and all guarantees of a run hold for theirs.

#include <atomic>
#include <functional>
#include <future>
#include <mutex>
#include <set>
#include <thread>

#include "actors/master/session_state.hpp"
#include "devices/kernel_call.hpp"
#include "devices/run_context.hpp"
#include "devices/threads/thread_index.hpp"
#include "tests/support/engine/own_op.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/threads.hpp"

namespace troupe {
namespace {

// Runs in the kernel of Calls, before y = x.
std::function<void(const RunContext&)> called;

std::shared_ptr<const Registry> ops() {
  const auto calls = [](KernelContext& ctx) {
    if (called) called(KernelCall::of(ctx).run());
    ctx.set_output(0, ctx.input(0));
  };
  // An asynchronous kernel that answers at once: its executor keeps a table of its runs.
  const auto answers = [](std::shared_ptr<AsyncContext> firing) {
    firing->done({firing->input(0)});
  };
  static const auto all =
      ops_with({own_op("Calls", {.run = calls}), own_op("Answers", {.start = answers})});
  return all;
}

Tensor scalar(int v) { return Tensor::of<float>({static_cast<float>(v)}, {1}); }

struct TestProgram {
  Graph graph{ops()};
  Output x = placeholder(graph, DType::f32, {1}, "x");
  Output y = graph.add({.op = "Calls", .inputs = {x}, .name = "calls"}) + 1.0;
  Output answered = graph.add({.op = "Answers", .inputs = {x}});
  Session session;
  explicit TestProgram(int threads = 2)
      : session(Session::local(graph, {.threads = threads, .ops = ops()})) {
    called = nullptr;
  }
  ~TestProgram() {
    session.close();
    called = nullptr;
  }
};

}  // namespace

TEST_CASE("each run of a session has a number of its own, whatever thread has begun it how") {
  TestProgram p;
  const Callable step = p.session.prepare({p.y}, {p.x}),
                 other = p.session.prepare({p.y * 2.0}, {p.x});
  std::mutex mutex;
  std::set<int64_t> numbers;
  called = [&](const RunContext& run) {
    std::lock_guard lock(mutex);
    numbers.insert(run.run);
  };
  constexpr int kThreads = 4, kRuns = 300;
  std::atomic<int> wrong{0};
  on_threads(kThreads, [&](int) {
    Cancellation cancel;
    for (int i = 0; i < kRuns; ++i) {
      std::promise<RunResult> ended;
      if (i % 4 == 3)
        step.start({scalar(i)}, {}, [&](RunResult result) { ended.set_value(result); });
      const Tensor got = i % 4 == 0   ? step({scalar(i)})[0]
                         : i % 4 == 1 ? other({scalar(i)})[0]
                         : i % 4 == 2 ? step({scalar(i)}, {.cancel = &cancel})[0]
                                      : ended.get_future().get().values.at(0);
      wrong += got.item<float>() != static_cast<float>(i % 4 == 1 ? 2 * i + 2 : i + 1);
    }
  });
  CHECK(wrong == 0);
  CHECK(numbers.size() == kThreads * kRuns);
}

TEST_CASE("more threads than have a place of their own run a call side by side") {
  TestProgram p;
  const Callable step = p.session.prepare({p.y}, {p.x});
  std::atomic<int> wrong{0}, there{0};
  constexpr int kThreads = kThreadIndices + 20;
  on_threads(kThreads, [&](int t) {
    ++there;
    while (there < kThreads) std::this_thread::yield();
    for (int i = 0; i < 20; ++i)
      wrong += step({scalar(t + i)})[0].item<float>() != static_cast<float>(t + i + 1);
  });
  CHECK(wrong == 0);
}

TEST_CASE("a run may run its own call, and others") {
  TestProgram p;
  const Callable step = p.session.prepare({p.y}, {p.x}),
                 other = p.session.prepare({p.x * 3.0}, {p.x});
  int depth = 0;
  float sum = 0;
  called = [&](const RunContext&) {
    if (depth == 3) return;
    ++depth;
    sum += step({scalar(depth)})[0].item<float>() + other({scalar(depth)})[0].item<float>();
    --depth;
  };
  for (int i = 0; i < 5; ++i) {
    sum = 0;
    CHECK(step({scalar(i)})[0].item<float>() == static_cast<float>(i + 1));
    CHECK(sum == (1 + 1 + 3) + (2 + 1 + 6) + (3 + 1 + 9));
  }
}

TEST_CASE("closing a session waits for the runs of all threads, and refuses those that follow") {
  for (int round = 0; round < 20; ++round) {
    TestProgram p;
    const Callable step = p.session.prepare({p.y}, {p.x});
    std::atomic<int> inside{0}, runs{0}, refused{0}, others{0};
    called = [&](const RunContext&) {
      ++inside;
      ++runs;
      --inside;
    };
    constexpr int kThreads = 3;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&] {
        for (;;) {
          const Refusal end = refusal_of([&] { step({scalar(1)}); });
          if (end.code == Errc::ok) continue;
          ++(end.code == Errc::cancelled ? refused : others);
          return;
        }
      });
    while (runs < 100 * round) std::this_thread::yield();
    p.session.close();
    const int until_then = runs;
    CHECK(inside == 0);
    for (std::thread& thread : threads) thread.join();
    CHECK(runs == until_then);
    CHECK(refused == kThreads);
    CHECK(others == 0);
  }
}

TEST_CASE("a run that a thread repeats is seen, and ends when the session is closed") {
  TestProgram p;
  const Callable step = p.session.prepare({p.y}, {p.x});
  std::atomic<bool> hold{false}, held{false};
  called = [&](const RunContext&) {
    if (!hold) return;
    held = true;
    hold.wait(true);
  };
  Refusal end;
  std::thread thread([&] {
    for (int i = 0; i < 3; ++i) step({scalar(i)});
    hold = true;
    end = refusal_of([&] { step({scalar(3)}); });
  });
  while (!held) std::this_thread::yield();
  const std::vector<RunUnderWay> runs = p.session.under_way();
  REQUIRE(runs.size() == 1);
  REQUIRE(runs[0].waits_for.size() == 1);
  CHECK(runs[0].waits_for.begin()->second == std::vector<std::string>{"calls (running)"});
  std::thread releasing([&] {  // releases the run once close() has begun, which waits for it
    while (refusal_of([&] { p.session.under_way(); }).code == Errc::ok) std::this_thread::yield();
    hold = false;
    hold.notify_all();
  });
  p.session.close();
  releasing.join();
  thread.join();
  CHECK((end.code == Errc::cancelled || end.code == Errc::ok));
}

TEST_CASE("a run that a thread repeats ends at its deadline") {
  TestProgram p(1);
  Output y = p.x;
  for (int i = 0; i < 3; ++i) y = p.graph.add({.op = "Calls", .inputs = {y}});
  const Callable step = p.session.prepare({y}, {p.x});
  for (int i = 0; i < 3; ++i) step({scalar(i)});
  // The kernel runs until tick() has told the step to stop.
  called = [&](const RunContext&) {
    while (p.session.under_way(std::chrono::milliseconds(700)).empty()) std::this_thread::yield();
  };
  check_error(Errc::timeout,
              [&] { step({scalar(7)}, {.timeout = std::chrono::milliseconds(100)}); });
  called = nullptr;
  CHECK(step({scalar(8)})[0].item<float>() == 8);
}

TEST_CASE("runs on the callers' threads and others of one call do not end each other") {
  TestProgram p;
  const Callable step = p.session.prepare({p.answered}, {p.x});
  std::atomic<int> failed{0};
  on_threads(3, [&](int t) {
    for (int i = 0; i < 2'000; ++i) {
      if (t > 0) {
        failed += refusal_of([&] { step({scalar(i)}); }).code != Errc::ok;
        continue;
      }
      std::promise<RunResult> ended;
      step.start({scalar(i)}, {}, [&](RunResult result) { ended.set_value(std::move(result)); });
      failed += ended.get_future().get().code != Errc::ok;
    }
  });
  CHECK(failed == 0);
}

TEST_CASE("a thread has a number of its own as long as it lives, and a later one has it again") {
  const int mine = thread_index();
  CHECK(thread_index() == mine);
  int first = -1, second = -1;
  std::thread([&] { first = thread_index(); }).join();
  std::thread([&] { second = thread_index(); }).join();
  CHECK(first != mine);
  CHECK(first == second);
  std::mutex mutex;
  std::set<int> replicas;
  std::atomic<int> there{0};
  on_threads(10, [&](int) {
    {
      std::lock_guard lock(mutex);
      replicas.insert(thread_index());
    }
    ++there;
    while (there < 10) std::this_thread::yield();
  });
  CHECK(replicas.size() == 10);
}

TEST_CASE("what many threads add is in the sum") {
  Tally tally;
  on_threads(8, [&](int t) {
    for (int i = 0; i < 1'000; ++i) tally.add(t);
  });
  CHECK(tally.sum() == 28'000);
}

}  // namespace troupe

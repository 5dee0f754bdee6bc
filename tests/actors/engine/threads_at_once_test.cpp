// A session of N threads has N lanes, and the caller of a step takes part in it: so many threads
// compute at once and no more, whatever is ready and however it is cut; and N do if there is work
// for them. A caller counts where kernels are costly, which the first steps measure.
//
// No clock decides: the first jobs of a step do not end before N threads are in kernels and jobs,
// which they must be if each lane that is idle helps. A step in which they never come fails, long
// after they could have. A kernel that has waited for long would begin beside N threads: here none
// has, however slow the machine is.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "actors/cluster/lane_scheduler.hpp"
#include "actors/master/session_state.hpp"
#include "tests/support/engine/own_op.hpp"
#include "troupe/session.hpp"

namespace troupe {
namespace {

constexpr int kWide = 12;     // nodes side by side
constexpr int kJobs = 6;      // that each of them is cut into
constexpr int kMeasured = 2;  // steps, before the kernels are known to be costly
constexpr int kSteps = 20;
constexpr std::chrono::seconds kNever{30};  // of waiting: some did not come
constexpr int kRounds = 3;  // of the scheduler that one thread too many has to come in

// A thread that is in a kernel or job.
struct Inside {
  static inline std::mutex mutex;  // guards the next five
  static inline std::condition_variable opened;
  static inline int now = 0, most = 0, wanted = 0;  // most: of this step
  static inline bool open = false;                  // all have been here at once in this step
  static inline bool all_came = true;
  static inline thread_local int depth = 0;  // it is counted once

  static void begin_step(int threads) {
    const std::lock_guard lock(mutex);
    most = 0;
    wanted = threads;
    open = false;
  }

  Inside() {
    if (depth++ > 0) return;
    const std::lock_guard lock(mutex);
    most = std::max(most, ++now);
  }
  ~Inside() {
    if (--depth > 0) return;
    const std::lock_guard lock(mutex);
    --now;
  }
  Inside(const Inside&) = delete;

  // Until as many as are wanted are inside, and a little more.
  static void wait_for_all() {
    std::unique_lock lock(mutex);
    if (!open && now < wanted) {
      // Not again if it was in vain: the test has failed.
      all_came = all_came && opened.wait_for(lock, kNever, [] { return open; });
    } else if (!open) {
      lock.unlock();
      for (int i = 0; i < kRounds; ++i) std::this_thread::yield();
      lock.lock();
      open = true;
      opened.notify_all();
    }
  }
};

// More than 20 us on any machine: costly.
void compute() {
  static std::atomic<double> sink;
  double x = 1;
  for (int i = 0; i < 50'000; ++i) x = x * 0.75 + 1;
  sink.store(x, std::memory_order_relaxed);
}

void work() {
  const Inside inside;
  Inside::wait_for_all();
  compute();
}

// Has kernels wait for a free core without end.
void wait_without_end(Session& session) {
  auto& scheduler = session.state().process->system().scheduler();
  auto& data = dynamic_cast<LaneScheduler&>(scheduler).data();
  const std::lock_guard lock(data.mutex);
  data.job_waits_max = std::chrono::hours(24);
}

std::shared_ptr<const Registry> ops() {
  return ops_with({own_op("Work", {.run = [](KernelContext& ctx) {
                            const Inside inside;
                            ctx.parallel(kJobs, [](int64_t) { work(); });
                            ctx.set_output(0, ctx.input(0));
                          }})});
}

}  // namespace

TEST_CASE("as many threads compute at once as there are lanes, the caller among them") {
  for (const int threads : {1, 2, 3}) {
    CAPTURE(threads);
    Graph graph(ops());
    const Output x = placeholder(graph, DType::f32, {4});
    Output sum = x;
    for (int i = 0; i < kWide; ++i) sum = sum + graph.add({.op = "Work", .inputs = {x}});
    Session session = Session::local(graph, {.threads = threads, .passes = false});
    wait_without_end(session);
    const Callable step = session.prepare({sum}, {x});
    const Tensor fed = Tensor::of<float>({1, 2, 3, 4}, {4});
    for (int i = 0; i < kMeasured + kSteps; ++i) {
      Inside::begin_step(threads);
      CHECK(step({fed})[0].data<float>()[3] == static_cast<float>(4 * (kWide + 1)));
      const std::lock_guard lock(Inside::mutex);
      CHECK(Inside::now == 0);
      if (i >= kMeasured) CHECK(Inside::most == threads);
    }
    REQUIRE(Inside::all_came);
  }
}

}  // namespace troupe

// Kernels wait in the queue of op jobs while callers compute, for 10 ms each: some idle lane
// watches for that, whoever has watched before.
#include <doctest/doctest.h>

#include <chrono>
#include <future>
#include <mutex>
#include <thread>

#include "actors/cluster/lane_scheduler.hpp"

namespace troupe {
namespace {

constexpr std::chrono::seconds kNever{20};  // that long only where the test fails

struct ThreeLanes : caf::actor_system_config {
  ThreeLanes() {
    load<LaneScheduler>();
    set("scheduler.max-threads", size_t{3});
  }
};

// A kernel that is under way until `end`.
class Job final : public caf::resumable, public caf::ref_counted {
 public:
  Job(std::promise<void>& begun, std::shared_future<void> end)
      : begun_(begun), end_(std::move(end)) {}
  resume_result resume(caf::execution_unit*, size_t) override {
    begun_.set_value();
    end_.wait();
    return done;
  }
  subtype_t subtype() const override { return function_object; }
  void intrusive_ptr_add_ref_impl() override { ref(); }
  void intrusive_ptr_release_impl() override { deref(); }

 private:
  std::promise<void>& begun_;
  const std::shared_future<void> end_;
};

bool has_come(const std::future<void>& what) {
  return what.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace

TEST_CASE("a kernel that relied on a lane that watched is watched when that has taken another") {
  for (int round = 0; round < 3; ++round) {
    ThreeLanes config;
    std::promise<void> begun[3], over;
    std::future<void> begins[3];
    for (int i = 0; i < 3; ++i) begins[i] = begun[i].get_future();
    const std::shared_future<void> end = over.get_future().share();
    caf::actor_system system(config);
    auto& scheduler = dynamic_cast<LaneScheduler&>(system.scheduler());
    auto& data = scheduler.data();
    const auto start = [&](int i) {
      system.scheduler().enqueue(caf::make_counted<Job>(begun[i], end).release());
    };
    const auto await = [&](auto&& that) {
      for (std::unique_lock lock(data.mutex); !that(); lock.lock()) {
        lock.unlock();
        std::this_thread::yield();
      }
    };
    // One lane and two callers compute.
    start(0);
    begins[0].wait();
    Cores::Caller mine;
    mine.take(*scheduler.cores());
    std::promise<void> taken;
    std::thread other([&] {
      Cores::Caller theirs;
      theirs.take(*scheduler.cores());
      taken.set_value();
      end.wait();
    });
    taken.get_future().wait();
    await([&] { return data.sleepers == 2; });
    start(1);
    await([&] { return data.watchers > 0 || has_come(begins[1]); });
    start(2);  // nobody is woken for this one, but where the lane was quicker than we are
    const bool all = begins[1].wait_for(kNever) == std::future_status::ready &&
                     begins[2].wait_for(kNever) == std::future_status::ready;
    over.set_value();
    other.join();
    REQUIRE(all);
  }
}

}  // namespace troupe

// Asks the scheduler of an actor system for helpers.
#include "actors/cluster/process_lanes.hpp"

#include <algorithm>
#include <thread>

#include "actors/cluster/lane_scheduler.hpp"
#include "devices/threads/lanes.hpp"

namespace troupe {
namespace {

// Helps with the running op, on the lane that takes it. One object may be in the scheduler's queues
// several times.
class IdleLane final : public caf::resumable, public caf::ref_counted {
 public:
  IdleLane(std::weak_ptr<Lanes> lanes, std::shared_ptr<Tracer> tracer)
      : lanes_(std::move(lanes)), tracer_(std::move(tracer)) {}
  resume_result resume(caf::execution_unit*, size_t) override {
    const auto lanes = lanes_.lock();
    if (!lanes) return awaiting_message;
    const int64_t begin = tracer_->on() ? Tracer::now_ns() : 0;
    lanes->help();
    if (!begin) return awaiting_message;
    const int64_t end = Tracer::now_ns();
    if (end - begin >= kJobSeenNs)  // else it came too late
      tracer_->record({"job", "jobs of a kernel on another thread", begin, end});
    return awaiting_message;
  }
  subtype_t subtype() const override { return function_object; }
  void intrusive_ptr_add_ref_impl() override { ref(); }
  void intrusive_ptr_release_impl() override { deref(); }

 private:
  static constexpr int64_t kJobSeenNs = 2'000;
  const std::weak_ptr<Lanes> lanes_;  // a helper may run after the process has gone
  const std::shared_ptr<Tracer> tracer_;
};

}  // namespace

ProcessLanes::ProcessLanes(int threads)
    : count_(threads > 0 ? threads
                         : std::max(1, static_cast<int>(std::thread::hardware_concurrency()))) {}

void ProcessLanes::begin(caf::actor_system& system, const std::shared_ptr<Tracer>& tracer,
                         bool helpers) {
  // An actor system that was passed in has another scheduler.
  auto* const lanes = dynamic_cast<LaneScheduler*>(&system.scheduler());
  if (lanes) actors_waiting_ = &lanes->actors_waiting();
  if (!helpers || count_ < 2) {
    op_lanes_ = std::make_shared<Lanes>();
    return;
  }
  struct Asked {
    caf::intrusive_ptr<IdleLane> helper;
  };
  const auto asked = std::make_shared<Asked>();
  const auto ask = [asked, &system](int n) {
    for (int i = 0; i < n; ++i) {
      asked->helper->ref();  // the scheduler's reference
      system.scheduler().enqueue(asked->helper.get());
    }
  };
  if (lanes) cores_ = lanes->cores();
  op_lanes_ = std::make_shared<Lanes>(count_ - 1, ask, cores_);
  asked->helper = caf::make_counted<IdleLane>(op_lanes_, tracer);
}

}  // namespace troupe

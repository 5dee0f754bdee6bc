// Implements the life of a step of actors/engine/activation.hpp: who has it, how it is stopped, how
// it ends.
#include "actors/engine/activation.hpp"

#include <algorithm>

#include "actors/engine/firing_jobs.hpp"
#include "devices/threads/burst.hpp"

namespace troupe {

Arrival* Activation::free_tag() {
  static Arrival tag;
  return &tag;
}

Activation::Activation(Stage& stage)
    : stage_(stage),
      values_(stage.program_.initial.values),
      missing_(stage.program_.nodes.firing.size()),
      uses_(stage.program_.initial.values.size()),
      ready_(stage.program_.nodes.firing.size() + 1),
      received_(stage.program_.edges.receives.size()),
      loops_(stage.program_.loops.size()),
      saved_(stage.program_.saves),
      inbox_(nullptr),
      awaited_edges_(stage.program_.edges.receives.size()) {
  if (auto* pool = dynamic_cast<PoolMemory*>(&stage.host_.device->memory());
      pool && stage.host_.device->on_host())
    cache_ = std::make_unique<PoolCache>(*pool);
}

Activation::~Activation() {
  values_.clear();
  for (Arrival* a = inbox_.load(); a && a != free_tag();) delete std::exchange(a, a->next);
}

// The step is to end early: async kernels and values that have not come are not waited for. Lane
// jobs are.
void Activation::abandon() {
  std::unordered_map<uint32_t, std::shared_ptr<AsyncFiring>> open;
  {
    std::lock_guard lock(mutex_);
    open = async_;
    for (size_t e = 0; e < awaited_edges_.size(); ++e) awaited_edges_[e] = false;
  }
  for (auto& [i, firing] : open)
    if (firing->abandon()) {
      --outstanding_;
      std::lock_guard lock(mutex_);
      async_.erase(i);
    }
  for (size_t e = 0; e < received_.size(); ++e)
    if (!received_[e]) {
      received_[e] = true;
      --outstanding_;
    }
  for (LoopState& loop : loops_)
    if (std::exchange(loop.held, false)) --outstanding_;
}

void Activation::stop(Errc code, std::string text) {
  Activation& root = *root_;
  std::lock_guard lock(root.mutex_);
  const bool first = root.stop_reason_.code == Errc::ok;
  if (first) root.stop_reason_ = {code, text + calls_under_way()};
  root.stop_.store(true, std::memory_order_release);
  if (first)
    for (Activation* call : root.async_calls_) call->post(std::make_unique<Arrival>());
}

void Activation::interrupt(Errc code, std::string text) {
  stop(code, std::move(text));
  post(std::make_unique<Arrival>());
}

bool Activation::hand_in(std::unique_ptr<Arrival> arrival) {
  Arrival* item = arrival.release();
  Arrival* head = inbox_.load(std::memory_order_relaxed);
  do item->next = head == free_tag() ? nullptr : head;
  while (!inbox_.compare_exchange_weak(head, item, std::memory_order_acq_rel));
  return head == free_tag();
}

void Activation::post(std::unique_ptr<Arrival> arrival) {
  if (!hand_in(std::move(arrival))) return;
  // The step is ours now. It goes on once what else came with this is handed in, too.
  Burst::put_off(this, [step = ActivationPtr{this}] { step->pass_on(); });
}

// Passes a step that is ours to the caller that sleeps on it, or to a lane.
void Activation::pass_on() {
  int sleeping = 1;
  if (caller_.compare_exchange_strong(sleeping, 2, std::memory_order_acq_rel)) {
    std::lock_guard lock(mutex_);
    parking_.notify_all();
    return;
  }
  ref();  // the scheduler drops it after resume()
  stage_.host_.system->scheduler().enqueue(this);
}

caf::resumable::resume_result Activation::resume(caf::execution_unit*, size_t) {
  own(true);
  return awaiting_message;
}

void Activation::finish() {
  if (caller_step_) return return_to_caller();
  stage_.running_.add(-1);
  if (armed_ns_)
    stage_.host_.tracer->record_memory(stage_.device(), stage_.host_.device->memory(), -1,
                                       info_.run);
  if (registered_) {
    std::lock_guard lock(stage_.mutex_);
    stage_.runs_.erase(info_.run);
    stage_.ended(info_.run);
  }
  if (stop_.load(std::memory_order_acquire)) {
    std::lock_guard lock(mutex_);
    result_ = stop_reason_;
    result_.text += loops_under_way();
  } else {
    for (uint32_t slot : stage_.program_.interface.kept)
      if (!values_[slot].defined())
        result_ = {Errc::invalid_argument, stage_.program_.no_value(slot)};
  }
  auto on_end = std::move(on_end_);
  on_end_ = nullptr;
  if (on_end) {
    ended_.store(true, std::memory_order_release);
    on_end(*this);
    return;
  }
  std::lock_guard lock(mutex_);
  ended_.store(true, std::memory_order_release);
  if (caller_.load(std::memory_order_relaxed) == 1) parking_.notify_all();
}

void Activation::begins_on_lane(uint32_t node) {
  std::lock_guard lock(mutex_);
  on_lanes_.push_back(node);
}

void Activation::ends_on_lane(uint32_t node) {
  std::lock_guard lock(mutex_);
  on_lanes_.erase(std::find(on_lanes_.begin(), on_lanes_.end(), node));
}

std::vector<std::string> Activation::waiting_for() {
  std::vector<std::string> out;
  std::lock_guard lock(mutex_);
  for (auto& [i, firing] : async_) out.push_back(stage_.name_of(i));
  for (size_t e = 0; e < awaited_edges_.size(); ++e)
    if (awaited_edges_[e]) out.push_back(stage_.name_of(stage_.program_.edges.receives[e].node));
  for (uint32_t i : on_lanes_) out.push_back(stage_.name_of(i) + " (running)");
  for (Activation* call : async_calls_)
    for (std::string& node : call->waiting_for()) out.push_back(std::move(node));
  const uint32_t now = now_.load(std::memory_order_acquire);  // and what it is a copy of
  const bool owned = inbox_.load(std::memory_order_relaxed) != free_tag();
  if ((owned || out.empty()) && now != kNone) out.push_back(stage_.name_of(now) + " (running)");
  return out;
}

}  // namespace troupe

// Implements the firing loop of actors/engine/activation.hpp: takes ready nodes, fires them, and
// settles what they leave behind.
#include <algorithm>
#include <optional>

#include "actors/engine/firing_jobs.hpp"
#include "devices/threads/cores.hpp"
#include "devices/threads/burst.hpp"

namespace troupe {

const uint32_t* Activation::input_slots(const FiringNode& node) const {
  return node.n_in <= 4 ? node.in : stage_.program_.nodes.lists.data() + node.in[0];
}

[[gnu::always_inline]] inline void Activation::bind(KernelCall& call, const FiringNode& node,
                                                    Memory& memory) {
  const uint32_t* in = input_slots(node);
  call.bind(*node.view, values_.data(), in, node.n_in, &values_[node.out], node.n_out, memory,
            info_, node.in_place && uses_[in[0]] == 1);
}

Memory& Activation::own_memory() {
  return cache_ ? static_cast<Memory&>(*cache_) : stage_.host_.device->memory();
}

Memory& Activation::memory_of(uint32_t i, const FiringNode& node, Memory& own) const {
  return node.leaves ? *stage_.program_.nodes.edge_memory[i] : own;
}

inline void Activation::settle(uint32_t i, bool dead) {
  const FiringNode& node = stage_.program_.nodes.firing[i];
  const uint32_t* in = input_slots(node);
  const auto drop = [this](Tensor& value) {
    if (cache_)
      cache_->drop(value);
    else
      value.reset();
  };
  for (uint32_t p = 0; p < node.n_in; ++p)
    if (--uses_[in[p]] == 0) drop(values_[in[p]]);
  for (uint32_t k = 0; k < node.n_out; ++k)
    if (uses_[node.out + k] == 0) drop(values_[node.out + k]);  // an output that nobody reads
  const uint32_t* to = node.n_to <= 4 ? node.to : stage_.program_.nodes.lists.data() + node.to[0];
  for (const uint32_t* end = to + node.n_to; to < end; ++to) {
    int32_t& missing = missing_[*to];
    missing = (missing - 1) | (dead ? kDeadBit : 0);
    if ((missing & ~kDeadBit) == 0) make_ready(*to);
  }
}

void Activation::settle_arrived(uint32_t i, bool dead) { settle(i, dead); }

void Activation::drain(bool may_use_lanes) {
  const FiringNode* const nodes = stage_.program_.nodes.firing.data();
  const std::atomic<bool>& stop = root_->stop_;
  Memory& own = own_memory();
  for (;;) {
    uint32_t i = next_;
    next_ = kNone;
    if (i == kNone) {
      if (top_ == 0) return;
      i = ready_[--top_];
    }
    const FiringNode& node = nodes[i];
    __builtin_prefetch(&node + 16);
    now_.store(i, std::memory_order_release);
    if (stop.load(std::memory_order_relaxed)) [[unlikely]]
      return;
    if (missing_[i] & kDeadBit) [[unlikely]] {
      fire_dead(i, node);
      continue;
    }
    if (node.kind != NodeKind::plain || observe_ ||
        (may_use_lanes && node.costly.load(std::memory_order_relaxed))) [[unlikely]] {
      if (node.kind >= NodeKind::branch) {
        fire_control(i, node);
        continue;
      }
      const Burst together;  // what nodes in a row send away leaves in one go
      do fire_special(i, nodes[i], may_use_lanes);
      while (next_sends(i));
      continue;
    }
    bind(call_, node, node.leaves ? memory_of(i, node, own) : own);
    node.run.load(std::memory_order_relaxed)(call_.context);
    settle(i, false);
  }
}

// Takes the next ready node if it is one that sends something away.
bool Activation::next_sends(uint32_t& i) {
  if (next_ == kNone && top_ == 0) return false;
  const uint32_t next = next_ != kNone ? next_ : ready_[top_ - 1];
  const NodeKind kind = stage_.program_.nodes.firing[next].kind;
  if (kind != NodeKind::async && kind != NodeKind::send) return false;
  if ((missing_[next] & kDeadBit) || stopped()) return false;
  if (next_ != kNone)
    next_ = kNone;
  else
    --top_;
  i = next;
  now_.store(i, std::memory_order_relaxed);
  return true;
}

void Activation::fire_special(uint32_t i, const FiringNode& node, bool may_use_lanes) {
  switch (node.kind) {
    case NodeKind::source:
      settle(i, false);
      return;
    case NodeKind::async:
      start_async(i, node);
      return;
    case NodeKind::send:
      send(i);
      return;
    case NodeKind::queued:
      launch(i, node);
      return;
    case NodeKind::plain:
      break;
    default:  // next_sends() gives no others
      throw InternalError("the ", stage_.program_.place_of(i), " is of no kind that fires here");
  }
  if (may_use_lanes && node.costly.load(std::memory_order_relaxed))
    wait_for_room(i, node);
  else
    observed_fire(i, node);
}

void Activation::launch(uint32_t i, const FiringNode& node) {
  const int64_t wall = trace_begin();
  bind(call_, node, stage_.host_.device->memory());
  call_.use(node.view->newest());
  std::optional<WorkCount> work;
  if (wall) work.emplace(call_);
  stage_.host_.device->launch(call_);
  if (work) stage_.trace_kernel("launch", i, wall, info_.run, *work, &values_[node.out]);
  settle(i, false);
}

void Activation::observed_fire(uint32_t i, const FiringNode& node) {
  bind(call_, node, memory_of(i, node, own_memory()));
  std::optional<WorkCount> work;
  if (armed_ns_) work.emplace(call_);
  const int64_t wall = trace_begin();
  const int64_t begin = tick_ns();
  node.run.load(std::memory_order_relaxed)(call_.context);
  const int64_t took = tick_ns() - begin;
  if (work) stage_.trace_kernel("kernel", i, wall, info_.run, *work, &values_[node.out]);
  stage_.sampled(i, took);
  settle(i, false);
}

void Activation::start_async(uint32_t i, const FiringNode& node) {
  const NodeView& view = node.view->newest();
  const uint32_t* in = input_slots(node);
  std::vector<Tensor> inputs;
  inputs.reserve(node.n_in);
  for (uint32_t p = 0; p < node.n_in; ++p) inputs.push_back(values_[in[p]]);
  auto firing = std::make_shared<AsyncFiring>(ActivationPtr{this}, i, view.node, std::move(inputs));
  ++outstanding_;
  const Failure started = failure_of([&] { view.kernel->start(firing); });
  if (started.code != Errc::ok) firing->fail(started.code, started.text);
  if (!firing->waits()) return;  // what has been answered nobody gives up or asks for
  std::lock_guard lock(mutex_);
  async_[i] = std::move(firing);
}

// What a kernel that failed had taken over comes back: it has written nothing (Op::in_place).
// False: that is lost.
bool Activation::give_back(const FiringNode& node) {
  if (!node.in_place) return true;
  Tensor& input = values_[*input_slots(node)];
  Tensor& made = values_[node.out];
  if (input.defined()) return true;
  const Output& type = node.view->node->inputs[0];
  if (!made.defined() || made.dtype() != type.dtype() || !type.shape().accepts(made.shape()))
    return false;
  input.swap(made);
  return true;
}

// True if the kernel runs again, now or when there is memory; else the step is stopped with the
// node's name. A kernel that refuses its inputs would refuse them again.
bool Activation::kernel_failed(uint32_t i, Errc code, const std::string& said) {
  const FiringNode& node = stage_.program_.nodes.firing[i];
  const std::string text = node.view ? failed_in(*node.view->node, said) : said;
  const bool whole = give_back(node);
  for (uint32_t k = 0; k < node.n_out; ++k) values_[node.out + k].reset();
  if (!whole || code == Errc::invalid_argument || code == Errc::bad_data) {
    stop(code == Errc::internal ? Errc::kernel_failed : code,
         detail::concat(stage_.program_.place_of(i), ": ", text));
    return false;
  }
  if (code == Errc::out_of_memory) {
    if (cache_) cache_->flush();  // a lane asks the pool, and knows nothing of what is kept here
    Stage::free_idle(stage_.host_.device);
    if (put_off(i)) return true;
  }
  auto restarts =
      std::find_if(restarts_.begin(), restarts_.end(), [&](const auto& r) { return r.first == i; });
  if (restarts == restarts_.end()) restarts = restarts_.insert(restarts, {i, 0});
  if (++restarts->second <= kKernelRestartsMax) {
    stage_.kernel_restarts_.fetch_add(1, std::memory_order_relaxed);
    if (stage_.host_.warn)
      stage_.host_.warn(detail::concat("kernel failed, run again: node=", stage_.name_of(i),
                                       " device=", stage_.device(), " run=", info_.run,
                                       " attempt=", restarts->second,
                                       " error=", text.substr(0, text.find('\n'))));
    make_ready(i);
    return true;
  }
  stop(code == Errc::internal ? Errc::kernel_failed : code,
       detail::concat(stage_.program_.place_of(i), " failed ", kKernelRestartsMax + 1,
                      " times: ", text));
  return false;
}

bool Activation::own(bool may_use_lanes) {
  return stage_.program_.in_calls ? own_calls(may_use_lanes) : go_on(may_use_lanes);
}

// Without the calls that it makes.
bool Activation::go_on(bool may_use_lanes) {
  may_use_lanes = may_use_lanes && stage_.host_.lanes > 1;
  Cores::Caller caller;
  for (;;) {
    for (Arrival* list = inbox_.exchange(nullptr, std::memory_order_acq_rel); list;) {
      std::unique_ptr<Arrival> arrival(std::exchange(list, list->next));
      handle(*arrival);
    }
    for (;;) {
      const Failure fired = failure_of([&] { drain(may_use_lanes); });
      if (fired.code == Errc::ok) break;
      const uint32_t i = now_.load(std::memory_order_relaxed);
      if (!kernel_failed(i, fired.code, fired.text)) break;
    }
    if (stopped()) {
      top_ = 0;
      next_ = kNone;
      outstanding_ -= static_cast<int64_t>(batch_.size());
      jobs_ -= static_cast<int64_t>(batch_.size());
      batch_.clear();
      put_off_.clear();
      waiting_.clear();
      abandon();
    }
    if (!waiting_.empty()) let_go();
    if (jobs_ == 0 && !put_off_.empty() && make_room()) continue;
    if (!batch_.empty() && stage_.host_.cores) caller.take(*stage_.host_.cores);
    std::unique_ptr<LaneJob> kept = hand_out();
    if (outstanding_ == 0 && next_ == kNone && top_ == 0) {
      if (fence()) continue;
      finish();  // nothing may touch the step after this
      return true;
    }
    Arrival* empty = nullptr;
    if (inbox_.compare_exchange_strong(empty, free_tag(), std::memory_order_acq_rel)) {
      if (!kept) return false;
      const bool ours_again = kept->run();
      if (!ours_again) return false;
    } else if (kept) {
      stage_.host_.system->scheduler().enqueue(kept.release());
    }
  }
}

// Gives the costly nodes that are ready to other lanes, but for one, which this thread runs itself.
std::unique_ptr<LaneJob> Activation::hand_out() {
  if (batch_.empty()) return nullptr;
  std::unique_ptr<LaneJob> kept = std::move(batch_.back());
  batch_.pop_back();
  for (auto& job : batch_)
    stage_.host_.system->scheduler().enqueue(job.release());  // it takes over our reference
  batch_.clear();
  return kept;
}

// Before a step on a queueing device ends, its queue must have done what it was given. True: it has
// just been asked for that.
bool Activation::fence() {
  if (stage_.host_.device->on_host() || std::exchange(fenced_, true)) return false;
  const Failure started = failure_of([&] {
    stage_.host_.device->fence([step = ActivationPtr{this}](Errc code, std::string text, Tensor) {
      auto arrival = std::make_unique<Arrival>();
      arrival->kind = Arrival::fence;
      arrival->code = code;
      arrival->text = std::move(text);
      step->post(std::move(arrival));
    });
  });
  if (started.code == Errc::ok)
    ++outstanding_;
  else
    stop(started.code, started.text);
  return true;
}

}  // namespace troupe

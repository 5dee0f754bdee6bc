// Implements actors/stage.hpp: arming, the firing loop, arrivals, failures. Compiling a partition
// is in stage_compile.cpp.
#include "actors/stage.hpp"

#include <algorithm>

#include "actors/op_actor.hpp"
#include "net/burst.hpp"

namespace troupe {
namespace {

constexpr int32_t kDeadBit = 1 << 30;  // in `missing`: an input of the node is dead

int64_t tick_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Runs one kernel and turns what it throws into a value: the border between kernels and actors.
template <class F>
StepResult guarded(F&& run) {
  try {
    run();
    return {};
  } catch (const Error& e) {
    return {e.code(), e.what()};
  } catch (const std::bad_alloc&) {
    return {Errc::out_of_memory, "the system refused memory"};
  } catch (const std::exception& e) {
    return {Errc::kernel_failed, e.what()};
  } catch (...) {
    return {Errc::kernel_failed, "something that is not a std::exception was thrown"};
  }
}

}  // namespace

// One firing of an async kernel. It outlives the step if it must: a late answer to an abandoned
// firing is ignored.
class AsyncFiring final : public AsyncContext {
 public:
  AsyncFiring(ActivationPtr step, uint32_t node, const Node* graph_node, std::vector<Tensor> inputs)
      : step_(std::move(step)),
        firing_index_(node),
        node_(graph_node),
        info_(step_->info()),
        inputs_(std::move(inputs)),
        begin_ns_(step_->observe_ ? Tracer::now_ns() : 0) {}

  const Tensor& input(int i) const override { return inputs_[static_cast<size_t>(i)]; }
  const Node& node() const override { return *node_; }
  const RunContext& step() const override { return info_; }
  void done(std::vector<Tensor> outputs) override { answer(Errc::ok, {}, std::move(outputs)); }
  void fail(Errc code, std::string text) override { answer(code, std::move(text), {}); }

  // The step does not wait for this firing any more. False: its answer is already in the inbox.
  bool abandon() {
    bool expected = false;
    if (!answered_.compare_exchange_strong(expected, true)) return false;
    step_.reset();
    return true;
  }

 private:
  void answer(Errc code, std::string text, std::vector<Tensor> outputs) {
    bool expected = false;
    if (!answered_.compare_exchange_strong(expected, true)) return;
    auto arrival = std::make_unique<Arrival>();
    arrival->kind = Arrival::async;
    arrival->node = firing_index_;
    arrival->code = code;
    arrival->text = std::move(text);
    arrival->outputs = std::move(outputs);
    ActivationPtr step = std::move(step_);
    Tracer* tracer = step->stage_.host_.tracer;
    if (begin_ns_ && tracer && tracer->on())
      tracer->record("wait", step->stage_.names_[firing_index_], begin_ns_, Tracer::now_ns(),
                     info_.run);
    step->post(std::move(arrival));
  }

  ActivationPtr step_;
  const uint32_t firing_index_;
  const Node* const node_;
  const RunContext info_;
  const std::vector<Tensor> inputs_;
  const int64_t begin_ns_;
  std::atomic<bool> answered_{false};
};

// One costly kernel on another lane. Writes the node's value slots, which nobody else touches
// before the node has settled.
class LaneJob final : public caf::resumable, public caf::ref_counted {
 public:
  LaneJob(ActivationPtr step, uint32_t node, bool may_reuse)
      : step_(std::move(step)), node_(node), may_reuse_(may_reuse) {}

  // Runs the kernel and hands the result in. True: the step had no owner and now has us.
  bool run() {
    Activation& a = *step_;
    const FiringNode& node = a.stage_.nodes_[node_];
    auto arrival = std::make_unique<Arrival>();
    arrival->kind = Arrival::job;
    arrival->node = node_;
    Tracer* tracer = a.stage_.host_.tracer;
    const bool traced = tracer && tracer->on();
    const int64_t wall = traced ? Tracer::now_ns() : 0;
    const int64_t begin = a.observe_ ? tick_ns() : 0;
    const StepResult result = guarded([&] {
      KernelCall call;
      call.bind(*node.view, a.values_.data(), a.input_slots(node), node.n_in, &a.values_[node.out],
                a.stage_.host_.device->memory(), a.info_, may_reuse_);
      node.run(call.context);
    });
    if (a.observe_ && result.code == Errc::ok) a.stage_.sampled(node_, tick_ns() - begin);
    if (traced)
      tracer->record("kernel", a.stage_.names_[node_], wall, Tracer::now_ns(), a.info_.run);
    arrival->code = result.code;
    arrival->text = result.text;
    Arrival* item = arrival.release();
    Arrival* head = a.inbox_.load(std::memory_order_relaxed);
    do item->next = head == Activation::free_tag() ? nullptr : head;
    while (!a.inbox_.compare_exchange_weak(head, item, std::memory_order_acq_rel));
    return head == Activation::free_tag();
  }

  resume_result resume(caf::execution_unit*, size_t) override {
    ActivationPtr step = step_;
    if (run()) step->own(true);
    return awaiting_message;
  }
  subtype_t subtype() const override { return function_object; }
  void intrusive_ptr_add_ref_impl() override { ref(); }
  void intrusive_ptr_release_impl() override { deref(); }

 private:
  const ActivationPtr step_;
  const uint32_t node_;
  const bool may_reuse_;
};

// Activation

Arrival* Activation::free_tag() {
  static Arrival tag;
  return &tag;
}

Activation::Activation(Stage& stage)
    : stage_(stage),
      values_(stage.constants_),
      missing_(stage.missing_.size()),
      uses_(stage.uses_.size()),
      ready_(stage.nodes_.size() + 1),
      received_(stage.receive_nodes_.size()),
      inbox_(nullptr),
      awaited_edges_(stage.receive_nodes_.size()) {
  if (auto* pool = dynamic_cast<PoolMemory*>(&stage.host_.device->memory());
      pool && stage.host_.device->on_host())
    cache_ = std::make_unique<PoolCache>(*pool);
}

Activation::~Activation() {
  values_.clear();
  for (Arrival* a = inbox_.load(); a && a != free_tag();) delete std::exchange(a, a->next);
}

const uint32_t* Activation::input_slots(const FiringNode& node) const {
  return node.n_in <= 4 ? node.in : stage_.more_.data() + node.in[0];
}

void Activation::bind(KernelCall& call, const FiringNode& node, Memory& memory) {
  const uint32_t* in = input_slots(node);
  call.bind(*node.view, values_.data(), in, node.n_in, &values_[node.out], memory, info_,
            node.n_in > 0 && uses_[in[0]] == 1);
}

inline void Activation::settle(uint32_t i, bool dead) {
  const FiringNode& node = stage_.nodes_[i];
  const uint32_t* in = input_slots(node);
  for (uint32_t p = 0; p < node.n_in; ++p)
    if (--uses_[in[p]] == 0) {
      if (cache_)
        cache_->drop(values_[in[p]]);
      else
        values_[in[p]].reset();
    }
  for (uint32_t k = 0; k < node.n_out; ++k)
    if (uses_[node.out + k] == 0) values_[node.out + k].reset();  // an output that nobody reads
  const uint32_t* to = node.n_to <= 4 ? node.to : stage_.more_.data() + node.to[0];
  for (const uint32_t* end = to + node.n_to; to < end; ++to) {
    int32_t& missing = missing_[*to];
    missing = (missing - 1) | (dead ? kDeadBit : 0);
    if ((missing & ~kDeadBit) == 0) make_ready(*to);
  }
}

void Activation::drain(bool may_use_lanes) {
  const FiringNode* const nodes = stage_.nodes_.data();
  Memory& memory = cache_ ? static_cast<Memory&>(*cache_) : stage_.host_.device->memory();
  for (;;) {
    uint32_t i = next_;
    next_ = kNone;
    if (i == kNone) {
      if (top_ == 0) return;
      i = ready_[--top_];
    }
    const FiringNode& node = nodes[i];
    __builtin_prefetch(&node + 16);
    now_.store(i, std::memory_order_relaxed);
    if (stop_.load(std::memory_order_relaxed)) [[unlikely]]
      return;
    if (missing_[i] & kDeadBit) [[unlikely]] {
      if (node.kind == NodeKind::send) send(i);
      settle(i, true);
      continue;
    }
    if (node.kind != NodeKind::plain || observe_ ||
        (may_use_lanes && node.costly.load(std::memory_order_relaxed))) [[unlikely]] {
      const Burst together;  // what nodes in a row send away leaves in one go
      do fire_special(i, nodes[i], may_use_lanes);
      while (next_sends(i));
      continue;
    }
    bind(call_, node, memory);
    node.run(call_.context);
    settle(i, false);
  }
}

// Takes the next ready node if it is one that sends something away.
bool Activation::next_sends(uint32_t& i) {
  if (next_ == kNone && top_ == 0) return false;
  const uint32_t next = next_ != kNone ? next_ : ready_[top_ - 1];
  const NodeKind kind = stage_.nodes_[next].kind;
  if (kind != NodeKind::async && kind != NodeKind::send) return false;
  if ((missing_[next] & kDeadBit) || stop_.load(std::memory_order_relaxed)) return false;
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
      bind(call_, node, stage_.host_.device->memory());
      stage_.host_.device->launch(call_);
      settle(i, false);
      return;
    case NodeKind::plain:
      break;
  }
  if (may_use_lanes && node.costly.load(std::memory_order_relaxed)) {
    // "In place" is decided here, by the owner: a lane reads no counts.
    const uint32_t* in = input_slots(node);
    ++outstanding_;
    batch_.emplace_back(new LaneJob(ActivationPtr{this}, i, node.n_in > 0 && uses_[in[0]] == 1));
    return;
  }
  observed_fire(i, node);
}

void Activation::observed_fire(uint32_t i, const FiringNode& node) {
  Tracer* tracer = stage_.host_.tracer;
  const bool traced = tracer && tracer->on();
  const int64_t wall = traced ? Tracer::now_ns() : 0;
  const int64_t begin = tick_ns();
  bind(call_, node, cache_ ? static_cast<Memory&>(*cache_) : stage_.host_.device->memory());
  node.run(call_.context);
  const int64_t took = tick_ns() - begin;
  if (traced) tracer->record("kernel", stage_.names_[i], wall, wall + took, info_.run);
  stage_.sampled(i, took);
  settle(i, false);
}

void Activation::start_async(uint32_t i, const FiringNode& node) {
  const uint32_t* in = input_slots(node);
  std::vector<Tensor> inputs;
  inputs.reserve(node.n_in);
  for (uint32_t p = 0; p < node.n_in; ++p) inputs.push_back(values_[in[p]]);
  auto firing =
      std::make_shared<AsyncFiring>(ActivationPtr{this}, i, node.view->node, std::move(inputs));
  {
    std::lock_guard lock(mutex_);
    async_[i] = firing;
  }
  ++outstanding_;
  const StepResult started = guarded([&] { node.view->kernel->start(firing); });
  if (started.code != Errc::ok) firing->fail(started.code, started.text);
}

void Activation::send(uint32_t i) {
  Stage::SendPort& port = *stage_.sends_[static_cast<size_t>(stage_.send_of_[i])];
  Deliver message;
  message.key = {stage_.session_, stage_.executable_, info_.run, 0, 0, port.edge, 0};
  const bool dead = missing_[i] & kDeadBit;
  message.dead = dead;
  const Tensor* value = port.control || dead ? nullptr : &values_[port.slot];
  port.transfers.fetch_add(1, std::memory_order_relaxed);
  if (value) port.bytes.fetch_add(value->byte_size(), std::memory_order_relaxed);
  if (!value || stage_.host_.device->on_host()) {
    if (value) message.value = *value;
    caf::anon_send(port.receiver, std::move(message));
    if (!dead) settle(i, false);
    return;
  }
  // The value is in memory that the host cannot read: copy it first. The node settles when the copy
  // is there.
  stage_.host_.device->copy_to_host(
      *value, [step = ActivationPtr{this}, i, &port, message = std::move(message)](
                  Errc code, std::string text, Tensor copy) mutable {
        auto arrival = std::make_unique<Arrival>();
        arrival->kind = Arrival::async;
        arrival->node = i;
        arrival->code = code;
        arrival->text = std::move(text);
        if (code == Errc::ok) {
          message.value = std::move(copy);
          caf::anon_send(port.receiver, std::move(message));
        }
        step->post(std::move(arrival));
      });
  ++outstanding_;  // not before: what throws is fired again. Answers wait in the inbox.
}

// True if the kernel may run again; else the step is stopped with the node's name.
bool Activation::kernel_failed(uint32_t i, Errc code, const std::string& text) {
  const FiringNode& node = stage_.nodes_[i];
  for (uint32_t k = 0; k < node.n_out; ++k) values_[node.out + k].reset();
  auto restarts =
      std::find_if(restarts_.begin(), restarts_.end(), [i](const auto& r) { return r.first == i; });
  if (restarts == restarts_.end()) restarts = restarts_.insert(restarts, {i, 0});
  if (++restarts->second <= kKernelRestartsMax) {
    stage_.kernel_restarts_.fetch_add(1, std::memory_order_relaxed);
    if (stage_.host_.warn)
      stage_.host_.warn(detail::concat("kernel failed, run again: node=", stage_.names_[i],
                                       " device=", stage_.device(), " run=", info_.run,
                                       " attempt=", restarts->second, " error=", text));
    return true;
  }
  stop(code == Errc::internal ? Errc::kernel_failed : code,
       detail::concat("node ", stage_.names_[i], " on ", stage_.device(), " failed ",
                      kKernelRestartsMax + 1, " times: ", text));
  return false;
}

void Activation::handle(Arrival& arrival) {
  switch (arrival.kind) {
    case Arrival::wake:
      return;
    case Arrival::fence:
      --outstanding_;
      if (arrival.code != Errc::ok) stop(arrival.code, arrival.text);
      return;
    case Arrival::deliver: {
      auto it = std::lower_bound(stage_.receive_nodes_.begin(), stage_.receive_nodes_.end(),
                                 std::pair{arrival.edge, uint32_t{0}});
      const size_t index = static_cast<size_t>(it - stage_.receive_nodes_.begin());
      if (received_[index]) return;  // the sender repeated itself
      received_[index] = true;
      {
        std::lock_guard lock(mutex_);
        awaited_edges_[index] = false;
      }
      const uint32_t i = it->second;
      if (arrival.code != Errc::ok) {
        --outstanding_;
        stop(arrival.code, arrival.text);
        return;
      }
      Tensor& value = arrival.outputs[0];
      if (value.defined() && !arrival.dead && !stage_.host_.device->on_host()) {
        const StepResult started = guarded([&] {
          stage_.host_.device->copy_from_host(
              value, [step = ActivationPtr{this}, i](Errc code, std::string text, Tensor copy) {
                auto done = std::make_unique<Arrival>();
                done->kind = Arrival::async;
                done->node = i;
                done->code = code;
                done->text = std::move(text);
                done->outputs.push_back(std::move(copy));
                step->post(std::move(done));
              });
        });
        if (started.code == Errc::ok) return;  // still outstanding
        --outstanding_;
        stop(started.code, detail::concat("node ", stage_.names_[i], " on ", stage_.device(), ": ",
                                          started.text));
        return;
      }
      --outstanding_;
      if (stage_.nodes_[i].n_out) values_[stage_.nodes_[i].out] = std::move(value);
      settle(i, arrival.dead);
      return;
    }
    case Arrival::async:
    case Arrival::job: {
      const uint32_t i = arrival.node;
      const FiringNode& node = stage_.nodes_[i];
      --outstanding_;
      if (arrival.kind == Arrival::async) {
        std::lock_guard lock(mutex_);
        async_.erase(i);
      }
      if (arrival.code != Errc::ok) {
        if (arrival.kind == Arrival::job) {
          if (kernel_failed(i, arrival.code, arrival.text)) make_ready(i);
        } else {
          stop(arrival.code, detail::concat("node ", stage_.names_[i], " on ", stage_.device(),
                                            ": ", arrival.text));
        }
        return;
      }
      if (arrival.kind == Arrival::async)
        for (size_t k = 0; k < node.n_out; ++k) {
          if (k >= arrival.outputs.size() || !arrival.outputs[k].defined()) {
            stop(Errc::kernel_failed,
                 detail::concat("node ", stage_.names_[i], " on ", stage_.device(),
                                " finished without output ", k));
            return;
          }
          values_[node.out + k] = std::move(arrival.outputs[k]);
        }
      settle(i, false);
      return;
    }
  }
}

bool Activation::own(bool may_use_lanes) {
  may_use_lanes = may_use_lanes && stage_.host_.lanes > 1;
  for (;;) {
    for (Arrival* list = inbox_.exchange(nullptr, std::memory_order_acq_rel); list;) {
      std::unique_ptr<Arrival> arrival(std::exchange(list, list->next));
      handle(*arrival);
    }
    for (;;) {
      const StepResult fired = guarded([&] { drain(may_use_lanes); });
      if (fired.code == Errc::ok) break;
      const uint32_t i = now_.load(std::memory_order_relaxed);
      if (!kernel_failed(i, fired.code, fired.text)) break;
      make_ready(i);
    }
    if (stop_.load(std::memory_order_acquire)) {
      top_ = 0;
      next_ = kNone;
      outstanding_ -= static_cast<int64_t>(batch_.size());
      batch_.clear();
      abandon();
    }
    std::unique_ptr<LaneJob> kept;
    if (!batch_.empty()) {
      kept = std::move(batch_.back());
      batch_.pop_back();
      for (auto& job : batch_)
        stage_.host_.system->scheduler().enqueue(job.release());  // it takes over our reference
      batch_.clear();
    }
    if (outstanding_ == 0 && next_ == kNone && top_ == 0) {
      if (!stage_.host_.device->on_host() && !std::exchange(fenced_, true)) {
        const StepResult started = guarded([&] {
          stage_.host_.device->fence(
              [step = ActivationPtr{this}](Errc code, std::string text, Tensor) {
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
        continue;
      }
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
}

void Activation::stop(Errc code, std::string text) {
  {
    std::lock_guard lock(mutex_);
    if (stop_reason_.code == Errc::ok) stop_reason_ = {code, std::move(text)};
  }
  stop_.store(true, std::memory_order_release);
}

void Activation::interrupt(Errc code, std::string text) {
  stop(code, std::move(text));
  post(std::make_unique<Arrival>());
}

void Activation::post(std::unique_ptr<Arrival> arrival) {
  Arrival* item = arrival.release();
  Arrival* head = inbox_.load(std::memory_order_relaxed);
  do item->next = head == free_tag() ? nullptr : head;
  while (!inbox_.compare_exchange_weak(head, item, std::memory_order_acq_rel));
  if (head != free_tag()) return;
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
  stage_.running_.fetch_sub(1, std::memory_order_relaxed);
  if (registered_) {
    std::lock_guard lock(stage_.mutex_);
    stage_.runs_.erase(info_.run);
    stage_.ended(info_.run);
  }
  if (stop_.load(std::memory_order_acquire)) {
    std::lock_guard lock(mutex_);
    result_ = stop_reason_;
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

std::vector<std::string> Activation::waiting_for() {
  std::vector<std::string> out;
  std::lock_guard lock(mutex_);
  for (auto& [i, firing] : async_) out.push_back(stage_.names_[i]);
  for (size_t e = 0; e < awaited_edges_.size(); ++e)
    if (awaited_edges_[e]) out.push_back(stage_.names_[stage_.receive_nodes_[e].second]);
  const uint32_t now = now_.load(std::memory_order_relaxed);
  if (out.empty() && now < stage_.names_.size()) out.push_back(stage_.names_[now] + " (running)");
  return out;
}

// Stage

Stage::~Stage() {
  std::lock_guard lock(mutex_);
  for (auto& actor : actors_)
    if (actor) static_cast<OpActor*>(actor->get())->retire();
  // Who handed something in last may hold a step for a moment more, but not the device's memory.
  for (auto& step : idle_) step->cache_.reset();
}

void Stage::sampled(uint32_t i, int64_t took_ns) {
  // A moving average over samples; the first one counts whole.
  const int64_t old = cost_ns_[i].load(std::memory_order_relaxed);
  const int64_t now = old == 0 ? took_ns : old + (took_ns - old) / 4;
  cost_ns_[i].store(now, std::memory_order_relaxed);
  if (host_.lanes > 1) nodes_[i].costly.store(now > kCostlyFrom.count(), std::memory_order_relaxed);
}

bool Stage::has_ended(int64_t run) const {
  return run <= newest_ended_ - kEndedWindow ||
         ended_[static_cast<uint64_t>(run) % kEndedWindow] == run;
}

void Stage::ended(int64_t run) {
  ended_[static_cast<uint64_t>(run) % kEndedWindow] = run;
  newest_ended_ = std::max(newest_ended_, run);
  while (!early_.empty() && early_.begin()->first <= newest_ended_ - kEndedWindow) {
    early_count_ -= early_.begin()->second.size();
    early_.erase(early_.begin());
  }
  while (!early_cancels_.empty() && early_cancels_.begin()->first <= newest_ended_ - kEndedWindow)
    early_cancels_.erase(early_cancels_.begin());
}

ActivationPtr Stage::acquire() {
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      ActivationPtr step = std::move(idle_.back());
      idle_.pop_back();
      return step;
    }
  }
  return caf::make_counted<Activation>(*this);
}

ActivationPtr Stage::begin(const RunContext& info, std::function<void(Activation&)> on_end) {
  ActivationPtr step = acquire();
  Activation& a = *step;
  std::copy(missing_.begin(), missing_.end(), a.missing_.begin());
  std::copy(uses_.begin(), uses_.end(), a.uses_.begin());
  std::copy(first_ready_.begin(), first_ready_.end(), a.ready_.begin());
  a.top_ = first_ready_.size();
  a.next_ = Activation::kNone;
  a.outstanding_ = receives_;
  a.restarts_.clear();
  a.fenced_ = false;
  a.info_ = info;
  a.result_ = {};
  a.on_end_ = std::move(on_end);
  a.stop_.store(false, std::memory_order_relaxed);
  a.ended_.store(false, std::memory_order_relaxed);
  a.caller_.store(0, std::memory_order_relaxed);
  a.now_.store(Activation::kNone, std::memory_order_relaxed);
  a.stop_reason_ = {};
  a.inbox_.store(nullptr, std::memory_order_relaxed);
  const int64_t count = steps_.fetch_add(1, std::memory_order_relaxed);
  a.observe_ =
      (host_.lanes > 1 && count % kSampleEvery == 1) || (host_.tracer && host_.tracer->on());
  running_.fetch_add(1, std::memory_order_relaxed);
  fired_.fetch_add(static_cast<int64_t>(nodes_.size()), std::memory_order_relaxed);
  a.registered_ = waits();
  if (a.registered_) {
    a.received_.assign(receive_nodes_.size(), false);
    {
      std::lock_guard lock(a.mutex_);
      a.awaited_edges_.assign(receive_nodes_.size(), true);
    }
    std::vector<Deliver> early;
    {
      std::lock_guard lock(mutex_);
      runs_[info.run] = step;
      if (auto it = early_cancels_.find(info.run); it != early_cancels_.end()) {
        a.stop(it->second.code, std::move(it->second.text));
        early_cancels_.erase(it);
      }
      if (auto it = early_.find(info.run); it != early_.end()) {
        early = std::move(it->second);
        early_count_ -= early.size();
        early_.erase(it);
      }
    }
    for (Deliver& message : early) deliver(std::move(message));
  }
  return step;
}

void Stage::release(ActivationPtr step) {
  Activation& a = *step;
  if (a.result_.code == Errc::ok) {
    for (uint32_t slot : kept_slots_) a.values_[slot].reset();
  } else {
    for (size_t slot = 0; slot < a.values_.size(); ++slot)
      if (!constants_[slot].defined()) a.values_[slot].reset();
  }
  for (Arrival* item = a.inbox_.exchange(nullptr); item && item != Activation::free_tag();)
    delete std::exchange(item, item->next);
  std::unique_lock lock(mutex_);
  if (idle_.size() < kIdleActivationsMax) {
    idle_.push_back(std::move(step));
    return;
  }
  lock.unlock();
  a.cache_.reset();  // see ~Stage()
}

bool Stage::wait(Activation& a, std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    if (a.ended_.load(std::memory_order_acquire)) {
      std::lock_guard lock(a.mutex_);  // whoever ended the step has let go of it
      return true;
    }
    a.caller_.store(1, std::memory_order_release);
    bool timed_out = false;
    {
      std::unique_lock lock(a.mutex_);
      timed_out = !a.parking_.wait_until(lock, deadline, [&] {
        return a.ended_.load(std::memory_order_acquire) ||
               a.caller_.load(std::memory_order_acquire) == 2;
      });
    }
    const int was = a.caller_.exchange(0, std::memory_order_acq_rel);
    if (was == 2) {
      a.own(true);
    } else if (timed_out && !a.ended_.load(std::memory_order_acquire)) {
      return false;
    }
  }
}

void Stage::deliver(Deliver message) {
  const int32_t edge = message.key.edge;
  auto it =
      std::lower_bound(receive_nodes_.begin(), receive_nodes_.end(), std::pair{edge, uint32_t{0}});
  // Not ours: the sender speaks of another executable, perhaps to an op actor of an earlier life of
  // this process.
  if (message.key.session != session_ || message.key.executable != executable_) return;
  if (it == receive_nodes_.end() || it->first != edge) return;
  const int64_t run = message.key.run;
  std::lock_guard lock(mutex_);
  auto found = runs_.find(run);
  if (found == runs_.end()) {
    if (has_ended(run) || early_count_ >= kEarlyMax) return;
    early_[run].push_back(std::move(message));
    ++early_count_;
    return;
  }
  auto arrival = std::make_unique<Arrival>();
  arrival->kind = Arrival::deliver;
  arrival->edge = edge;
  arrival->dead = message.dead;
  arrival->code = message.error;
  arrival->text = std::move(message.text);
  arrival->outputs.push_back(std::move(message.value));
  found->second->post(std::move(arrival));
}

void Stage::cancel(int64_t run, Errc code, const std::string& text) {
  std::lock_guard lock(mutex_);
  if (auto early = early_.find(run); early != early_.end()) {
    early_count_ -= early->second.size();
    early_.erase(early);
  }
  auto found = runs_.find(run);
  if (found == runs_.end()) {
    if (waits() && !has_ended(run) && early_cancels_.size() < kEarlyMax)
      early_cancels_[run] = {code, text};
    return;
  }
  found->second->stop(code, text);
  found->second->post(std::make_unique<Arrival>());
}

void Stage::cancel_all(Errc code, const std::string& text) {
  std::vector<int64_t> runs;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [run, step] : runs_) runs.push_back(run);
  }
  for (int64_t run : runs) cancel(run, code, text);
}

void Stage::restart_op(uint32_t i, const std::string& reason) {
  std::lock_guard lock(mutex_);
  if (i >= actors_.size() || !actors_[i]) return;
  actors_[i] = make_op_actor(*host_.system, actors_[i]->id(), weak_from_this(), i, names_[i]);
  ++op_restarts_;
  if (host_.replaced) host_.replaced(actors_[i]);
  if (host_.warn)
    host_.warn(detail::concat("op actor restarted: node=", names_[i], " device=", device(),
                              " reason=", reason));
}

caf::actor Stage::op_actor(uint32_t i) const {
  std::lock_guard lock(mutex_);
  return caf::actor_cast<caf::actor>(actors_.at(i));
}

std::map<int32_t, caf::actor> Stage::receivers() const {
  std::map<int32_t, caf::actor> out;
  for (auto [edge, node] : receive_nodes_) out[edge] = op_actor(node);
  return out;
}

void Stage::connect(int32_t edge, caf::actor receiver) {
  for (auto& port : sends_)
    if (port->edge == edge) port->receiver = receiver;
}

uint32_t Stage::slot_of(int32_t node, int32_t output) const {
  auto it = slots_.find({node, output});
  return it == slots_.end() ? kNoSlot : it->second;
}

std::map<int32_t, int64_t> Stage::edge_bytes() const {
  std::map<int32_t, int64_t> out;
  for (const auto& port : sends_) out[port->edge] += port->bytes.load(std::memory_order_relaxed);
  return out;
}

std::map<int32_t, int64_t> Stage::edge_transfers() const {
  std::map<int32_t, int64_t> out;
  for (const auto& port : sends_)
    out[port->edge] += port->transfers.load(std::memory_order_relaxed);
  return out;
}

void Stage::schedule(const ActivationPtr& step) {
  step->ref();  // the scheduler drops it after resume()
  host_.system->scheduler().enqueue(step.get());
}

std::vector<std::string> Stage::waiting_for(int64_t run) {
  ActivationPtr step;
  {
    std::lock_guard lock(mutex_);
    if (auto it = runs_.find(run); it != runs_.end()) step = it->second;
  }
  return step ? step->waiting_for() : std::vector<std::string>{};
}

}  // namespace troupe

// Implements actors/engine/stage.hpp: steps are armed, found and released; what comes for them from
// elsewhere finds them, or waits. Firing is in activation*.cpp.
#include "actors/engine/stage.hpp"

#include <algorithm>
#include <set>

#include "actors/engine/compile.hpp"
#include "actors/engine/op_actor.hpp"

namespace troupe {

namespace {

// The stages that have had steps, for free_idle().
struct AllStages {
  std::mutex mutex;  // guards the next; taken before a stage's
  std::set<Stage*> stages;
};
AllStages& all_stages() {
  static auto* const all = new AllStages;  // stages may end after static objects have
  return *all;
}

// What no kernel does that is cheap.
bool writes_much(const Node& node) {
  if (node.op->aliases) return false;
  for (const TensorType& type : node.outputs)
    if (type.shape.is_known() && type.shape.size() > kManyBytes / size_of(type.dtype)) return true;
  return false;
}

}  // namespace

void Stage::free_idle(const Device* device) {
  AllStages& all = all_stages();
  std::lock_guard among(all.mutex);
  for (Stage* stage : all.stages) {
    if (stage->host_.device != device) continue;
    std::lock_guard lock(stage->mutex_);
    for (Spare& spare : stage->spares_)
      if (ActivationPtr step = spare.take()) stage->idle_.push_back(std::move(step));
    for (const ActivationPtr& step : stage->idle_)
      if (step->cache_) step->cache_->flush();
  }
}

std::shared_ptr<Stage> Stage::make(uint64_t session, uint32_t executable,
                                   std::shared_ptr<const Graph> graph, Partition partition,
                                   StageHost host) {
  Program program = compile(std::move(graph), std::move(partition),
                            {.device = host.device,
                             .lanes = host.lanes,
                             .op_lanes = host.op_lanes,
                             .edge_memory = host.edge_memory});
  return make(session, executable, std::move(program), host);
}

std::shared_ptr<Stage> Stage::make(uint64_t session, uint32_t executable, Program program,
                                   const StageHost& host) {
  std::vector<Program> functions = std::exchange(program.functions, {});
  std::shared_ptr<Stage> stage(new Stage(session, executable, std::move(program), host));
  for (Program& body : functions) {
    stage->bodies_.push_back(make(session, executable, std::move(body), host));
    stage->bodies_.back()->callable_ = &stage->bodies_;
  }
  std::lock_guard lock(stage->mutex_);
  for (uint32_t i = 0; i < stage->node_count(); ++i)
    stage->actors_.push_back(make_op_actor(*host.system, 0, stage, i, stage->name_of(i)));
  return stage;
}

Stage::Stage(uint64_t session, uint32_t executable, Program program, StageHost host)
    : session_(session),
      executable_(executable),
      host_(std::move(host)),
      program_(std::move(program)),
      ports_(program_.edges.sends.size()) {
  adopt_costs();
}

Stage::~Stage() {
  {
    AllStages& all = all_stages();
    std::lock_guard among(all.mutex);
    all.stages.erase(this);
  }
  std::lock_guard lock(mutex_);
  for (auto& actor : actors_)
    if (actor) static_cast<OpActor*>(actor->get())->retire();
  // Who handed something in last may hold a step for a moment more, but not the device's memory.
  for (auto& step : idle_) step->cache_.reset();
  for (Spare& spare : spares_)
    if (const ActivationPtr step = spare.take()) step->cache_.reset();
}

// With one lane nobody asks what a node costs.
void Stage::adopt_costs() {
  costs_.assign(program_.nodes.firing.size(), nullptr);
  if (host_.lanes <= 1) return;
  for (uint32_t i = 0; i < program_.nodes.firing.size(); ++i) {
    if (program_.nodes.firing[i].kind != NodeKind::plain) continue;
    const Node& node = *program_.nodes.views[i].node;
    NodeCosts::Cost& cost =
        host_.costs ? host_.costs->of(node, host_.device->kind()) : own_costs_.emplace_back(0);
    const int64_t known = cost.load(std::memory_order_relaxed);
    const bool costly =
        known ? known > kCostlyFrom.count() : known_flops(node) > kManyFlops || writes_much(node);
    costs_[i] = &cost;
    program_.nodes.firing[i].costly.store(costly, std::memory_order_relaxed);
  }
}

void Stage::sampled(uint32_t i, int64_t took_ns) {
  NodeCosts::Cost* const cost = costs_[i];
  if (!cost) return;
  // A moving average over samples; the first one counts whole.
  const int64_t old = cost->load(std::memory_order_relaxed);
  const int64_t now = old == 0 ? took_ns : old + (took_ns - old) / 4;
  cost->store(std::max<int64_t>(now, 1), std::memory_order_relaxed);
  // What other threads read is written only when it changes.
  if (const bool is = now > kCostlyFrom.count();
      is != program_.nodes.firing[i].costly.load(std::memory_order_relaxed))
    program_.nodes.firing[i].costly.store(is, std::memory_order_relaxed);
}

std::map<int32_t, int64_t> Stage::costs() const {
  std::map<int32_t, int64_t> out;
  for (size_t i = 0; i < program_.nodes.firing.size(); ++i)
    if (const int64_t ns = costs_[i] ? costs_[i]->load(std::memory_order_relaxed) : 0; ns > 0)
      out[program_.nodes.views[i].node->id] = ns;
  return out;
}

bool Stage::has_ended(int64_t run) const {
  return run < oldest_ || ended_[static_cast<uint64_t>(run) % kEndedMemory] == run;
}

void Stage::ended(int64_t run) { ended_[static_cast<uint64_t>(run) % kEndedMemory] = run; }

void Stage::forget_before(int64_t run) {
  std::lock_guard lock(mutex_);
  if (run <= oldest_) return;
  oldest_ = run;
  early_.forget_before(run);
}

// A run that was not armed here for so long that more runs came than a session has. Said now and
// then: what came for it is gone.
void Stage::forgot(int64_t run) {
  if (run < 0 || forgotten_++ % kForgottenSaid != 0 || !host_.warn) return;
  host_.warn(detail::concat("values came for runs that never began here: device=", device(),
                            " run=", run, " forgotten=", forgotten_));
}

ActivationPtr Stage::acquire() {
  if (ActivationPtr mine = spares_[static_cast<size_t>(thread_index())].take()) return mine;
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      ActivationPtr step = std::move(idle_.back());
      idle_.pop_back();
      return step;
    }
  }
  for (Spare& other : spares_)  // of threads that only end steps, perhaps
    if (other.step.load(std::memory_order_relaxed))
      if (ActivationPtr step = other.take()) return step;
  {
    AllStages& all = all_stages();
    std::lock_guard among(all.mutex);
    all.stages.insert(this);
  }
  return caf::make_counted<Activation>(*this);
}

ActivationPtr Stage::begin(const RunContext& info, std::function<void(Activation&)> on_end) {
  ActivationPtr step = acquire();
  Activation& a = *step;
  std::copy(program_.initial.missing.begin(), program_.initial.missing.end(), a.missing_.begin());
  std::copy(program_.initial.uses.begin(), program_.initial.uses.end(), a.uses_.begin());
  std::copy(program_.initial.first_ready.begin(), program_.initial.first_ready.end(),
            a.ready_.begin());
  a.top_ = program_.initial.first_ready.size();
  a.next_ = kNone;
  a.outstanding_ = program_.edges.awaited;
  a.jobs_ = 0;
  a.calls_ = 0;
  a.waiting_.clear();
  a.on_their_way_.clear();
  a.ahead_ = kNone;
  a.put_off_.clear();
  a.last_try_ = kNone;
  a.restarts_.clear();
  a.fenced_ = false;
  a.info_ = info;
  a.result_ = {};
  a.on_end_ = std::move(on_end);
  a.stop_.store(false, std::memory_order_relaxed);
  a.ended_.store(false, std::memory_order_relaxed);
  a.caller_.store(0, std::memory_order_relaxed);
  a.now_.store(kNone, std::memory_order_relaxed);
  a.stop_reason_ = {};
  a.inbox_.store(nullptr, std::memory_order_relaxed);
  const int64_t count = a.armed_++;
  a.armed_ns_ = host_.tracer && host_.tracer->on() ? Tracer::now_ns() : 0;
  a.observe_ = (host_.lanes > 1 && count % kSampleEvery == 1) || a.armed_ns_;
  if (a.armed_ns_) host_.tracer->record_memory(device(), host_.device->memory(), info.run);
  running_.add(1);
  if (!program_.loops.empty()) {
    for (LoopState& loop : a.loops_) loop = {};
    for (size_t l = 0; l < program_.loops.size(); ++l)
      a.loops_[l].acks.assign(program_.loops[l].acks.size(), 0);
    for (auto& values : a.saved_) values.clear();
    a.early_.clear();
  }
  a.registered_ = !program_.is_body() &&
                  (waits() || a.on_end_);  // else its caller holds it, and can interrupt it
  if (a.registered_) {
    a.received_.assign(program_.edges.receives.size(), false);
    for (size_t e = 0; e < program_.edges.receives.size(); ++e)
      a.received_[e] = program_.edges.receives[e].loop != kNone;
    {
      std::lock_guard lock(a.mutex_);
      a.awaited_edges_.assign(program_.edges.receives.size(), true);
      for (size_t e = 0; e < program_.edges.receives.size(); ++e)
        a.awaited_edges_[e] = program_.edges.receives[e].loop == kNone;
    }
    EarlyValues::Entry early;
    {
      std::lock_guard lock(mutex_);
      runs_[info.run] = step;
      if (info.run < oldest_) a.stop(Errc::cancelled, "the run is over");  // its end came first
      early = early_.take(info.run);
      if (early.ended.code != Errc::ok) a.stop(early.ended.code, std::move(early.ended.text));
    }
    for (Deliver& message : early.values) deliver(std::move(message));
  }
  return step;
}

void Stage::release(ActivationPtr step) {
  Activation& a = *step;
  if (a.result_.code == Errc::ok) {
    for (uint32_t slot : program_.interface.kept) a.values_[slot].reset();
  } else {
    for (size_t slot = 0; slot < a.values_.size(); ++slot)
      if (slot >= program_.initial.values.size() || !program_.initial.values[slot].defined())
        a.values_[slot].reset();
    a.next_values_.clear();
    a.early_.clear();
  }
  for (auto& values : a.saved_) values.clear();  // what no Restore has taken
  for (Arrival* item = a.inbox_.exchange(nullptr); item && item != Activation::free_tag();)
    delete std::exchange(item, item->next);
  ActivationPtr other = std::move(step);
  if (program_.is_body()) {
    if (a.cache_ && a.cache_->cached_bytes() > kIdleCallBytes) a.cache_->flush();
  } else {
    // The last one stays with this thread; the one that was there goes to all.
    std::atomic<Activation*>& mine = spares_[static_cast<size_t>(thread_index())].step;
    other = {mine.exchange(other.detach(), std::memory_order_acq_rel), /*add_ref=*/false};
    if (!other) return;
  }
  std::unique_lock lock(mutex_);
  if (idle_.size() < (program_.is_body() ? kIdleCallsMax : kIdleActivationsMax)) {
    idle_.push_back(std::move(other));
    return;
  }
  lock.unlock();
  other->cache_.reset();  // see ~Stage()
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
  // Not ours: the sender speaks of another executable, perhaps to an op actor of an earlier life of
  // this process.
  if (message.key.session != session_ || message.key.executable != executable_) return;
  const uint32_t index = program_.receive_of(edge);
  if (index == kNone) return;
  const Program::Receive& receive = program_.edges.receives[index];
  const int32_t loop = receive.edge->loop;
  const int64_t iteration = message.key.iteration;
  if (message.key.frame != loop + 1 || iteration < 0 || (loop < 0 && iteration != 0)) return;
  const int64_t run = message.key.run;
  std::lock_guard lock(mutex_);
  auto found = runs_.find(run);
  if (found == runs_.end()) {
    if (!has_ended(run)) forgot(early_.add(std::move(message), program_.nodes.names[receive.node]));
    return;
  }
  auto arrival = std::make_unique<Arrival>();
  arrival->kind = Arrival::deliver;
  arrival->edge = edge;
  arrival->iteration = iteration;
  arrival->dead = message.dead;
  arrival->code = message.error;
  arrival->text = std::move(message.text);
  arrival->outputs.push_back(std::move(message.value));
  found->second->post(std::move(arrival));
}

void Stage::cancel(int64_t run, Errc code, const std::string& text) {
  std::lock_guard lock(mutex_);
  auto found = runs_.find(run);
  if (found == runs_.end()) {
    if (waits() && !has_ended(run)) forgot(early_.end(run, {code, text}));
    return;
  }
  found->second->interrupt(code, text);
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
  actors_[i] =
      make_op_actor(*host_.system, actors_[i]->id(), weak_from_this(), i, program_.nodes.names[i]);
  ++op_restarts_;
  if (host_.replaced) host_.replaced(actors_[i]);
  if (host_.warn)
    host_.warn(detail::concat("op actor restarted: node=", program_.nodes.names[i],
                              " device=", device(), " reason=", reason));
}

caf::actor Stage::op_actor(uint32_t i) const {
  std::lock_guard lock(mutex_);
  return caf::actor_cast<caf::actor>(actors_.at(i));
}

std::map<int32_t, caf::actor> Stage::receivers() const {
  std::map<int32_t, caf::actor> out;
  for (const Program::Receive& receive : program_.edges.receives)
    out[receive.id] = op_actor(receive.node);
  return out;
}

void Stage::connect(int32_t edge, caf::actor receiver) {
  for (size_t s = 0; s < ports_.size(); ++s)
    if (program_.edges.sends[s].edge == edge) ports_[s].receiver = receiver;
}

std::map<int32_t, EdgeCount> Stage::edge_counts() const {
  std::map<int32_t, EdgeCount> out;
  for (size_t s = 0; s < ports_.size(); ++s)
    out[program_.edges.sends[s].edge] = {ports_[s].transfers.load(std::memory_order_relaxed),
                                         ports_[s].bytes.load(std::memory_order_relaxed)};
  return out;
}

namespace {

// "fc1/MatMul, fc1/Relu": the nodes whose work it does; none if it is one itself.
std::string members_of(const NodeView& view) {
  std::string names;
  if (const Graph* program = program_of(view))
    for (size_t id = view.node->inputs.size(); id < program->nodes().size(); ++id)
      names += (names.empty() ? "" : ", ") + program->nodes()[id]->name;
  return names;
}

}  // namespace

void Stage::trace(const char* category, uint32_t i, int64_t begin_ns, int64_t run, int64_t bytes,
                  int64_t flops) {
  if (!host_.tracer || !host_.tracer->on()) return;
  const NodeView* view = program_.nodes.firing[i].view;
  const int64_t now = Tracer::now_ns();
  host_.tracer->record({.category = category,
                        .name = name_of(i),
                        .begin_ns = begin_ns,
                        .end_ns = now,
                        .run = run,
                        .bytes = bytes,
                        .op = view ? view->node->op->name : "",
                        .flops = flops,
                        .members = view ? members_of(*view) : ""});
  if (host_.tracer->wants_memory(now))
    host_.tracer->record_memory(device(), host_.device->memory());
}

void Stage::trace_kernel(const char* category, uint32_t i, int64_t begin_ns, int64_t run,
                         const WorkCount& work, const Tensor* outputs) {
  const KernelWork done = work.after(outputs);
  trace(category, i, begin_ns, run, done.bytes, done.flops);
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

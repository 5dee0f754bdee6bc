// PartitionExecutor: steps begin and end here, and news from elsewhere finds them. Firing is in
// step.cpp.
#include "actors/engine/executor.hpp"

#include <functional>
#include <utility>

#include "actors/engine/program/compile.hpp"
#include "devices/run_context.hpp"

namespace troupe {

std::shared_ptr<PartitionExecutor> PartitionExecutor::make(uint64_t session, uint32_t executable,
                                                           std::shared_ptr<const Graph> graph,
                                                           Partition partition,
                                                           const ExecutorHost& host) {
  Program program = compile(std::move(graph), std::move(partition),
                            {.device = host.device,
                             .lanes = host.lanes,
                             .op_lanes = host.op_lanes,
                             .edge_memory = host.edge_memory,
                             .push_memory = host.push_memory});
  std::vector<Program> bodies = std::exchange(program.bodies, {});
  std::shared_ptr<PartitionExecutor> out(
      new PartitionExecutor(session, executable, std::move(program), host));
  for (Program& body : bodies) {
    out->bodies_.emplace_back(new PartitionExecutor(session, executable, std::move(body), host));
    PartitionExecutor& last = *out->bodies_.back();
    last.root_ = out.get();
    last.op_actors_.make(*host.system, last.shared());
  }
  out->op_actors_.make(*host.system, out);
  return out;
}

PartitionExecutor::PartitionExecutor(uint64_t session, uint32_t executable, Program program,
                                     const ExecutorHost& host)
    : session_(session),
      executable_(executable),
      host_(host),
      program_(std::move(program)),
      ports_(program_.edges.sends.size()),
      times_(program_, host.lanes, host.costs.get(), host.device->kind()),
      pool_(host.device),
      runs_(device(), host.warn),
      op_actors_(program_) {}

OpHandle PartitionExecutor::op_actor(const std::string& node) const {
  for (uint32_t i = 0; i < program_.nodes.firing.size(); ++i) {
    const NodeView* view = program_.nodes.firing[i].view();
    if (view && does_work_of(*view, node)) return op_actor(i);
  }
  for (const auto& body : bodies_)
    if (OpHandle found = body->op_actor(node)) return found;
  return {};
}

std::map<int32_t, OpHandle> PartitionExecutor::receivers() const {
  std::map<int32_t, OpHandle> out;
  for (const Program::Receive& receive : program_.edges.receives) {
    const PartitionExecutor& at =
        receive.loop == kNone ? *this : body(program_.loops[receive.loop].body);
    out[receive.id] = at.op_actor(receive.node);
  }
  return out;
}

void PartitionExecutor::connect(int32_t edge, const OpHandle& receiver) {
  for (size_t s = 0; s < ports_.size(); ++s)
    if (program_.edges.sends[s].edge == edge) ports_[s].receiver = receiver;
}

StepPtr PartitionExecutor::begin(const RunContext& info, std::function<void(Step&)> on_end) {
  StepPtr step = pool_.take();
  if (!step) step = caf::make_counted<Step>(*this);
  // A step that is not registered is held by its caller, who can interrupt it.
  const bool registered = program_.waits() || on_end;
  step->arm(info, registered, std::move(on_end));
  if (const Device& on = *host_.device; on.lost()) [[unlikely]]
    step->stop(Errc::device_lost, device_lost(on).what());
  if (step->state().context.traced_ns)
    host_.tracer->record_memory(device(), host_.device->memory(), info.run);
  running_.add(1);
  if (registered) runs_.begin(step);
  return step;
}

void PartitionExecutor::release(StepPtr step) {
  step->clear();
  pool_.give(std::move(step));
}

void PartitionExecutor::ended(Step& step, bool registered) {
  running_.add(-1);
  const int64_t run = step.info().run;
  if (step.state().context.traced_ns)
    host_.tracer->record_memory(device(), host_.device->memory(), -1, run);
  if (registered) runs_.end(run);
}

void PartitionExecutor::deliver(Deliver message) {
  if (root_ != this) return root_->deliver(std::move(message));
  const Key& key = message.key;
  // Another executable: the sender speaks to an op actor of an earlier life of this process,
  // perhaps.
  if (key.session != session_ || key.executable != executable_) return;
  const uint32_t index = program_.receive_of(key.edge);
  if (index == kNone) return;
  const Program::Receive& receive = program_.edges.receives[index];
  const int32_t loop = receive.edge->loop;
  if (key.frame != loop + 1 || key.iteration < 0 || (loop < 0 && key.iteration != 0)) return;
  runs_.deliver(std::move(message), receive.name);
}

void PartitionExecutor::cancel(int64_t run, Errc code, const std::string& text) {
  runs_.cancel(run, program_.waits(), code, text);
}

void PartitionExecutor::cancel_all(Errc code, const std::string& text) {
  for (int64_t run : runs_.runs()) cancel(run, code, text);
}

std::vector<std::string> PartitionExecutor::waiting_for(int64_t run) {
  const StepPtr step = runs_.find(run);
  return step ? step->waiting_for() : std::vector<std::string>{};
}

void PartitionExecutor::check(const std::string& node, const std::shared_ptr<const Op>& op) const {
  for (const FiringNode& firing : program_.nodes.firing)
    if (const NodeView* view = firing.view(); view && does_work_of(*view, node)) {
      code_with(*view, node, op->name, op);
      return;
    }
  for (const auto& body : bodies_) body->check(node, op);
}

OpCodePtr PartitionExecutor::code_with(const NodeView& code, const std::string& node,
                                       const std::string& op,
                                       const std::shared_ptr<const Op>& here) const {
  const auto ops = program_.graph->shared_registry();
  return with_op(code, node, here ? here : std::shared_ptr<const Op>(ops, &ops->get(op)),
                 {host_.device->kind(), device()});
}

void PartitionExecutor::restart_op(uint32_t node, OpCodePtr lost, const std::string& reason) {
  op_actors_.restart(node, lost, *host_.system, shared(), host_.replaced);
  if (host_.warn)
    host_.warn(detail::concat("op actor restarted: node=", program_.nodes.names[node],
                              " device=", device(), " reason=", reason));
}

void PartitionExecutor::kernel_runs_again(uint32_t node, int64_t run, int attempt,
                                          const std::string& error) {
  kernel_restarts_.fetch_add(1, std::memory_order_relaxed);
  if (host_.warn)
    host_.warn(detail::concat("kernel failed, run again: node=", program_.nodes.names[node],
                              " device=", device(), " run=", run, " attempt=", attempt,
                              " error=", error.substr(0, error.find('\n'))));
}

const std::string& PartitionExecutor::name_of(const FiringNode* node) const {
  const std::vector<FiringNode>& firing = program_.nodes.firing;
  const std::less<const FiringNode*> before;
  if (!before(node, firing.data()) && before(node, firing.data() + firing.size()))
    return program_.nodes.names[static_cast<size_t>(node - firing.data())];
  for (const auto& body : bodies_)
    if (const std::string& name = body->name_of(node); !name.empty()) return name;
  static const std::string none;
  return none;
}

int64_t PartitionExecutor::kernel_restarts() const {
  int64_t sum = kernel_restarts_.load(std::memory_order_relaxed);
  for (const auto& body : bodies_) sum += body->kernel_restarts();
  return sum;
}

int64_t PartitionExecutor::op_restarts() const {
  int64_t sum = op_actors_.restarts();
  for (const auto& body : bodies_) sum += body->op_restarts();
  return sum;
}

std::map<int32_t, int64_t> PartitionExecutor::costs() const {
  std::map<int32_t, int64_t> out = times_.by_graph_node();
  for (const auto& body : bodies_) out.merge(body->costs());
  return out;
}

std::map<int32_t, EdgeCount> PartitionExecutor::edge_counts() const {
  std::map<int32_t, EdgeCount> out;
  for (size_t s = 0; s < ports_.size(); ++s)
    out[program_.edges.sends[s].edge] = {ports_[s].transfers.load(std::memory_order_relaxed),
                                         ports_[s].bytes.load(std::memory_order_relaxed)};
  return out;
}

}  // namespace troupe

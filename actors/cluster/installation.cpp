// Makes the executors of an executable, connects them, and runs steps in all of them.
#include "actors/cluster/installation.hpp"

#include <mutex>

#include "actors/cluster/process.hpp"
#include "devices/run_context.hpp"
#include "graph/task_of.hpp"
#include "placement/memory_plan.hpp"

namespace troupe {
namespace {

// An op actor answers on the thread of the asker.
constexpr std::chrono::seconds kOpActorTimeout{30};

}  // namespace

Installation::Installation(Process& process, uint64_t session, uint32_t executable)
    : process_(process),
      firing_(process.occupants()),
      executable_(executable),
      resources_(process.resources().of(session)),
      input_(process.services().input(session)) {}

std::shared_ptr<Installation> Installation::make(uint64_t session, uint32_t executable,
                                                 std::shared_ptr<const Graph> graph,
                                                 std::vector<Partition> partitions,
                                                 Process& process) {
  std::shared_ptr<Installation> out(new Installation(process, session, executable));
  const std::shared_ptr<NodeCosts> costs = NodeCosts::of_process();
  for (Partition& partition : partitions) {
    ExecutorHost host;
    host.system = &process.system();
    host.device = process.device(partition.device);
    TROUPE_CHECK(host.device, "device ", partition.device, " is not one of ", process.task());
    host.tracer = &process.tracer();
    host.lanes = process.lanes().count();
    host.op_lanes = &process.lanes().op_lanes();
    host.cores = process.lanes().cores();
    host.actors_waiting = process.lanes().actors_waiting();
    host.costs = costs;
    SegmentPool* const segments = process.mesh() ? host.device->segments() : nullptr;
    host.edge_memory = [&process, segments](const Edge& edge) -> Memory* {
      Device* const to = process.device(edge.destination);
      return to ? to->staging() : segments;
    };
    host.push_memory = segments;
    host.warn = [log = process.log()](const std::string& line) { log->warn(line); };
    host.replaced = [&process](const caf::strong_actor_ptr& actor) { process.open_door(actor); };
    const auto note = [&](const std::string& device, std::set<std::string>& tasks) {
      if (!process.device(device)) tasks.insert(task_of(device));
    };
    for (const Edge& edge : partition.edges) {
      note(edge.source, out->senders_);
      note(edge.source, out->peers_);
      note(edge.destination, out->peers_);
    }
    const int64_t budget = host.device->memory().stats().budget_bytes;
    if (const std::string line = over_budget(*graph, partition, budget); !line.empty())
      host.warn(line);
    out->executors_.push_back(
        PartitionExecutor::make(session, executable, graph, partition, std::move(host)));
  }
  for (const auto& executor : out->executors_)
    for (const auto& [edge, receiver] : executor->receivers()) {
      process.open_door(caf::actor_cast<caf::strong_actor_ptr>(receiver));
      out->connect(edge,
                   receiver);  // from an executor of this process; the master connects edges from
                               // other processes
    }
  return out;
}

Installation::~Installation() {
  for (const auto& executor : executors_)
    for (const auto& [edge, receiver] : executor->receivers()) process_.close_door(receiver.id());
}

std::map<int32_t, uint64_t> Installation::receivers() const {
  std::map<int32_t, uint64_t> out;
  for (const auto& executor : executors_)
    for (const auto& [edge, receiver] : executor->receivers()) out[edge] = receiver.id();
  return out;
}

void Installation::connect(int32_t edge, const OpHandle& receiver) {
  for (const auto& executor : executors_) executor->connect(edge, receiver);
}

PartitionExecutor* Installation::executor_on(const std::string& device) const {
  for (const auto& executor : executors_)
    if (executor->device() == device) return executor.get();
  return nullptr;
}

int64_t Installation::running() const {
  int64_t out = 0;
  for (const auto& executor : executors_) out += executor->running();
  return out;
}

std::map<int32_t, EdgeCount> Installation::edge_counts() const {
  std::map<int32_t, EdgeCount> out;
  for (const auto& executor : executors_)
    for (const auto& [edge, count] : executor->edge_counts())
      out[edge] = count;  // one Send per edge
  return out;
}

std::vector<std::string> Installation::waiting_for(int64_t run) const {
  std::vector<std::string> out;
  for (const auto& executor : executors_)
    for (std::string& node : executor->waiting_for(run)) out.push_back(std::move(node));
  return out;
}

void Installation::forget_before(int64_t run) {
  for (const auto& executor : executors_) executor->forget_before(run);
}

void Installation::run(const RunContext& info, PartitionExecutor* fed,
                       const std::vector<std::pair<uint32_t, Tensor>>& sources,
                       const std::vector<uint32_t>& keep, bool here, Done done) {
  struct Ends {
    std::mutex mutex;
    size_t open = 0;
    StepResult first;
    std::vector<Tensor> kept;
    Done done;
    std::shared_ptr<Installation> self;
  };
  auto ends = std::make_shared<Ends>();
  ends->open = executors_.size();
  ends->done = std::move(done);
  ends->self = shared_from_this();
  if (executors_.empty()) {
    ends->done({}, {});
    return;
  }
  const auto on_end = [ends, keep, fed](Step& step) {
    PartitionExecutor& executor = step.executor();
    const StepResult result = step.result();
    std::vector<Tensor> kept;
    if (&executor == fed && result.code == Errc::ok)
      for (uint32_t slot : keep) kept.push_back(slot == kNone ? Tensor{} : step.value(slot));
    const int64_t run = step.info().run;
    executor.release(StepPtr{&step});
    bool last = false, first_failure = false;
    std::shared_ptr<Installation> self;  // the last executor to end drops the step's reference
    {
      std::lock_guard lock(ends->mutex);
      if (&executor == fed) ends->kept = std::move(kept);
      if (result.code != Errc::ok && ends->first.code == Errc::ok) {
        ends->first = result;
        first_failure = true;
      }
      last = --ends->open == 0;
      self = last ? std::move(ends->self) : ends->self;
    }
    if (first_failure && !last)
      self->cancel(run, Errc::cancelled, "another part of the step failed: " + result.text);
    if (last) {
      Done done = std::move(ends->done);
      done(ends->first, std::move(ends->kept));
    }
  };
  // All executors are ready before the first one fires, so that a failure can cancel the others.
  std::vector<StepPtr> steps;
  RunContext context = info;
  context.resources = resources();
  context.input = input();
  for (const auto& executor : executors_) steps.push_back(executor->begin(context, on_end));
  for (size_t i = 0; i < steps.size(); ++i)
    if (executors_[i].get() == fed)
      for (const auto& [slot, value] : sources) steps[i]->set_source(slot, value);
  for (size_t i = 0; i < steps.size(); ++i)
    if (!here || executors_[i].get() != fed) steps[i]->schedule();
  for (size_t i = 0; i < steps.size(); ++i)
    if (here && executors_[i].get() == fed) steps[i]->own(true);
}

void Installation::check(const std::string& node, const std::shared_ptr<const Op>& op) const {
  for (const auto& executor : executors_) executor->check(node, op);
}

int64_t Installation::become(const std::string& node, const std::shared_ptr<const Op>& op) {
  check(node, op);
  int64_t changed = 0;
  caf::scoped_actor self(process_.system());
  for (const auto& executor : executors_)
    if (const OpHandle actor = executor->op_actor(node))
      self->request(actor, kOpActorTimeout, BecomeOp{node, op->name, op})
          .receive([&](const Became& m) { changed += m.executors; },
                   [&](const caf::error& error) {
                     const auto [code, text] = from_caf(error);
                     throw Error(code, text);
                   });
  return changed;
}

void Installation::cancel_all(Errc code, const std::string& text) {
  for (const auto& executor : executors_) executor->cancel_all(code, text);
}

void Installation::cancel(int64_t run, Errc code, const std::string& text) {
  for (const auto& executor : executors_) executor->cancel(run, code, text);
}

}  // namespace troupe

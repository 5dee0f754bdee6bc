// Spans of a trace: what fired, for how long, with which work.
#include "actors/engine/firing_trace.hpp"

#include "actors/engine/executor.hpp"

namespace troupe {
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

void trace(const PartitionExecutor& executor, const char* category, uint32_t node, int64_t begin_ns,
           int64_t run, int64_t bytes, int64_t flops) {
  const ExecutorHost& host = executor.host();
  if (!host.tracer || !host.tracer->on()) return;
  const Program& program = executor.program();
  const NodeView* view = program.nodes.firing[node].view();
  const int64_t now = Tracer::now_ns();
  host.tracer->record({.category = category,
                       .name = program.nodes.names[node],
                       .begin_ns = begin_ns,
                       .end_ns = now,
                       .run = run,
                       .bytes = bytes,
                       .op = view ? view->node->op->name : "",
                       .flops = flops,
                       .members = view ? members_of(*view) : ""});
  if (host.tracer->wants_memory(now))
    host.tracer->record_memory(executor.device(), host.device->memory());
}

void trace_kernel(const PartitionExecutor& executor, const char* category, uint32_t node,
                  int64_t begin_ns, int64_t run, const WorkCount& work, const Tensor* outputs) {
  const KernelWork done = work.after(outputs);
  trace(executor, category, node, begin_ns, run, done.bytes, done.flops);
}

}  // namespace troupe

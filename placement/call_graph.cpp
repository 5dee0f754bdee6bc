// Prepares the graph of a call: prune, then the passes in order. Also explain_passes() of
// troupe/graph.hpp.
#include "placement/call_graph.hpp"

#include <iterator>
#include <optional>

#include "devices/failure.hpp"
#include "devices/memory/heap_memory.hpp"
#include "devices/kernel_call.hpp"
#include "devices/run_context.hpp"
#include "graph/op.hpp"
#include "placement/passes/defer_broadcast.hpp"
#include "placement/passes/layout.hpp"
#include "placement/passes/passes.hpp"

namespace troupe {
namespace {

// Evaluates on this thread. A node that fails here stays, and fails in the step.
std::vector<Tensor> evaluate_here(const Node& node, const std::vector<Tensor>& inputs) {
  HeapMemory memory;
  std::vector<Tensor> outputs;
  const Kernel* kernel = find_kernel(node, DeviceKind::cpu);
  if (!kernel || !kernel->run) return outputs;
  const Failure failure = failure_of(
      [&] { outputs = run_kernel(NodeView::make(node, *kernel), inputs, memory, RunContext{}); });
  if (failure.code != Errc::ok) outputs.clear();
  return outputs;
}

// Tracks the nodes of a call through the passes.
class Whereabouts {
 public:
  explicit Whereabouts(const CallGraph& call) : origins_(call.origins) {
    for (const auto& node : call.graph->nodes()) {
      places_.push_back(node->id);
      ops_.push_back(node->op);
    }
  }

  void after(const char* pass, const Rewritten& now, std::vector<Absorbed>& out) {
    const auto at = [](size_t i) { return static_cast<int32_t>(i); };
    for (size_t i = 0; i < places_.size(); ++i) {
      if (places_[i] < 0) continue;
      const Output moved = now.moved[{nullptr, places_[i], 0}];
      places_[i] = moved.graph ? moved.node : -1;
      const int32_t node = origins_[i];
      if (places_[i] < 0) {
        out.push_back({.node = node, .pass = pass});
        continue;
      }
      const auto place = static_cast<size_t>(places_[i]);
      const Op* op = now.call.graph->node(at(place)).op;
      const int32_t into = now.call.origins[place];
      if (into == node && op == ops_[i]) continue;
      out.push_back({node, pass, into, op});
      places_[i] = -1;
    }
  }

 private:
  const std::vector<int32_t> origins_;
  std::vector<int32_t> places_;  // -1: absorbed
  std::vector<const Op*> ops_;
};

// In order of execution. Constants are folded first, so that the other passes find the ones and
// zeros among them; fusion comes last, as no other pass looks into a fused node.
struct Pass {
  const char* name;
  Rewritten (*run)(CallGraph);
};
template <Edits (*find)(const CallGraph&)>
Rewritten edited(CallGraph call) {
  Edits edits = find(call);
  return std::move(edits).apply(std::move(call));
}
Edits fold_here(const CallGraph& call) { return fold_constants(call, evaluate_here); }

constexpr Pass kPasses[] = {
    {"fold_constants", edited<fold_here>},
    {"simplify", edited<simplify>},
    {"merge_common", edited<merge_common>},
    {"layout", layout},
    {"pull_rows", edited<pull_rows>},
    {"push_rows_once", edited<push_rows_once>},
    {"join", edited<join>},
    {"defer_broadcast", defer_broadcast},
    {"fuse", edited<fuse>},
};

}  // namespace

CallGraph make_call_graph(const Graph& graph, const std::vector<Output>& fetches,
                          const std::vector<Output>& feeds, const Placement* placement, bool passes,
                          const OnPass& told, std::vector<Absorbed>* absorbed) {
  CallGraph call = call_graph(graph, fetches, feeds, placement ? &placement->devices : nullptr);
  if (told) told("prune", call);
  if (!passes) return call;
  std::optional<Whereabouts> whereabouts;
  if (absorbed) whereabouts.emplace(call);
  for (const Pass& pass : kPasses) {
    Rewritten now = pass.run(std::move(call));
    if (absorbed && &pass != std::end(kPasses) - 1)  // not for fuse: kernels of the parts still run
      whereabouts->after(pass.name, now, *absorbed);
    call = std::move(now.call);
    if (told) told(pass.name, call);
  }
  return call;
}

Placement placement_in(const CallGraph& call, const std::vector<int32_t>& nodes,
                       const Placement& placement) {
  Placement out;
  for (int32_t id : nodes) {
    out.devices.emplace_hint(out.devices.end(), id, call.graph->node(id).device);
    out.reasons.emplace_hint(out.reasons.end(), id,
                             placement.reasons.at(call.origins[static_cast<size_t>(id)]));
  }
  return out;
}

std::vector<PassResult> explain_passes(const Graph& graph, const std::vector<Output>& fetches,
                                       const std::vector<Output>& feeds) {
  std::vector<PassResult> results;
  auto before = static_cast<int64_t>(graph.nodes().size());
  make_call_graph(
      graph, fetches, feeds, nullptr, true, [&](const char* pass, const CallGraph& call) {
        const auto after = static_cast<int64_t>(call.graph->nodes().size());
        results.push_back({pass, std::exchange(before, after), after, to_text(*call.graph)});
      });
  return results;
}

}  // namespace troupe

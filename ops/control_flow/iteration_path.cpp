// iteration_path: the numbers of the iterations around a node, as values of the graph. As values
// they follow their readers to other devices, into copies of bodies, and back through gradients,
// which restore them; the engine needs no knowledge of them. A loop counts its iterations only if
// its body asks while it is built.
#include "troupe/ops/control_flow.hpp"

#include <algorithm>

#include "graph/frames.hpp"
#include "graph/op.hpp"
#include "ops/control_flow/loop_builder.hpp"

namespace troupe {

thread_local LoopBuilder* LoopBuilder::innermost_ = nullptr;

LoopBuilder* LoopBuilder::of(const Graph& graph, int32_t frame) {
  LoopBuilder* builder = innermost_;
  while (builder && (&builder->graph_ != &graph || builder->opener_ != frame))
    builder = builder->around_;
  return builder;
}

Output LoopBuilder::counter() {
  if (counter_ == kNoCounter) {
    Output zero;
    {
      const auto frame = open_frame(graph_, outside_, {}, at_);
      const auto together = graph_.scope({.colocate_with = graph_.node(opener_).name}, at_);
      zero = fill(graph_, {}, 0, DType::i64, "first", at_);
    }
    own_counter_ = true;
    counting_variable(zero);
  }
  return variables_[counter_];
}

Output LoopBuilder::next_of_counter() {
  const auto frame = open_frame(graph_, body_, {}, at_);
  const auto together = graph_.scope({.colocate_with = graph_.node(opener_).name}, at_);
  return captured(graph_, variables_[counter_]) + 1;
}

namespace {

// The iteration number of the loop that `loop` opens; undefined if the loop does not count.
Output iteration_of(Graph& graph, int32_t loop) {
  if (LoopBuilder* builder = LoopBuilder::of(graph, loop)) return builder->counter();
  const auto& nodes = graph.nodes();
  for (size_t id = static_cast<size_t>(loop) + 1; id < nodes.size(); ++id)
    if (const Node& node = *nodes[id]; node.frame == loop &&
                                       node.op->control == ControlKind::variable &&
                                       node.attr<bool>("counts"))
      return {&graph, node.id, 0};
  return {};
}

// The function's argument that is its call's path; undefined if there is none.
Output path_argument(Graph& graph, const Node& function) {
  const auto index = function.attr<int64_t>("path");
  const auto& nodes = graph.nodes();
  for (size_t id = static_cast<size_t>(function.id) + 1; index >= 0 && id < nodes.size(); ++id)
    if (const Node& node = *nodes[id]; node.frame == function.id &&
                                       node.op->control == ControlKind::argument &&
                                       node.attr<int64_t>("index") == index)
      return {&graph, node.id, 0};
  return {};
}

}  // namespace

std::vector<Output> iteration_path(Graph& graph) {
  std::vector<Output> path;
  const auto add = [&](const Output& value) {
    if (value.defined()) path.push_back(value);
  };
  for (int32_t frame = current_frame(graph); frame >= 0; frame = graph.node(frame).frame) {
    const Node& opener = graph.node(frame);
    if (opener.op->control == ControlKind::loop) add(iteration_of(graph, frame));
    if (opener.op->control != ControlKind::function) continue;
    add(path_argument(graph, opener));
    break;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace troupe

// evaluate: what a graph computes, by running its plain CPU kernels one after the other. No
// session, no threads, no devices.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "devices/kernel_call.hpp"
#include "troupe/op.hpp"

namespace troupe {

// The heap as a Memory.
class HeapMemory final : public Memory {
 public:
  Buffer* allocate(int64_t bytes) override {
    return Tensor::empty(DType::u8, Shape{bytes}).detach();
  }
  MemoryStats stats() const override { return {}; }
  void release(Buffer*) noexcept override {}  // the heap takes its buffers back itself
};

using Feeds = std::map<Output, Tensor>;

// The values of `outputs`, in order. `feeds` stand for the outputs of whatever nodes they name,
// which do not run. Throws: what a kernel throws; Error(invalid_argument) for a node without a
// plain CPU kernel.
inline std::vector<Tensor> evaluate(const Graph& graph, const std::vector<Output>& outputs,
                                    const Feeds& feeds = {}, const RunContext& step = {}) {
  std::set<int32_t> needed;
  std::vector<int32_t> open;
  Feeds values = feeds;
  const auto need = [&](int32_t id) {
    if (needed.insert(id).second) open.push_back(id);
  };
  const auto need_value = [&](const Output& output) {
    if (!values.count(output)) need(output.node);
  };
  for (const Output& output : outputs) need_value(output);
  while (!open.empty()) {
    const Node& node = graph.node(open.back());
    open.pop_back();
    for (const Output& input : node.inputs) need_value(input);
    for (int32_t id : node.control_inputs) need(id);
  }
  HeapMemory memory;
  for (int32_t id : needed) {  // a node stands behind its inputs in a graph
    const Node& node = graph.node(id);
    const Kernel* kernel = find_kernel(node, DeviceKind::cpu);
    if (!kernel || !kernel->run)
      throw Error(Errc::invalid_argument, describe(node), " has no plain CPU kernel; feed it");
    std::vector<Tensor> inputs;
    for (const Output& input : node.inputs) inputs.push_back(values.at(input));
    std::vector<Tensor> results = run_kernel(NodeView::make(node, *kernel), inputs, memory, step);
    for (size_t i = 0; i < results.size(); ++i)
      values.insert_or_assign(Output{const_cast<Graph*>(&graph), id, static_cast<int32_t>(i)},
                              results[i]);
  }
  std::vector<Tensor> got;
  for (const Output& output : outputs) got.push_back(values.at(output));
  return got;
}

inline Tensor evaluate(Output output, const Feeds& feeds = {}, const RunContext& step = {}) {
  return evaluate(*output.graph, {output}, feeds, step)[0];
}

}  // namespace troupe

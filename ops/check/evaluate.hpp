// evaluate: computes outputs of a graph by running its plain kernels one after the other, on the
// CPU or, as far as possible, on a given device. Uses no session and no threads of its own.
#pragma once

#include <future>
#include <map>
#include <vector>

#include "devices/device.hpp"
#include "devices/memory/heap_memory.hpp"
#include "devices/kernel_call.hpp"
#include "devices/run_context.hpp"
#include "graph/op.hpp"
#include "graph/prune.hpp"
#include "troupe/op.hpp"

namespace troupe {

using FedValues = std::map<Output, Tensor, OutputOrder>;

// Values on the host; runs nodes whose inputs are there.
class HostRun {
 public:
  HostRun(const Graph& graph, const FedValues& feeds, const RunContext& step)
      : graph_(graph), step_(step), values_(feeds) {}

  const Tensor& value(const Output& output) const { return values_.at(output); }
  void keep(const Output& output, Tensor value) {
    values_.insert_or_assign(output, std::move(value));
  }
  void run(const Node& node) {
    const Kernel* kernel = find_kernel(node, DeviceKind::cpu);
    if (!kernel || !kernel->run)
      throw Error(Errc::invalid_argument, describe(node), " has no plain CPU kernel; feed it");
    std::vector<Tensor> inputs;
    for (const Output& input : node.inputs) inputs.push_back(value(input));
    const auto results = run_kernel(NodeView::make(node, *kernel), inputs, memory_, step_);
    for (size_t i = 0; i < results.size(); ++i)
      keep({const_cast<Graph*>(&graph_), node.id, static_cast<int32_t>(i)}, results[i]);
  }

 private:
  const Graph& graph_;
  const RunContext& step_;
  FedValues values_;
  HeapMemory memory_;
};

inline std::vector<Output> names_of(const FedValues& feeds) {
  std::vector<Output> names;
  for (const auto& [output, value] : feeds) names.push_back(output);
  return names;
}

// The values of `outputs`, in order. `feeds` replace outputs of nodes, which do not run then.
// Throws: the errors of kernels; Error(invalid_argument) for a node without a plain CPU kernel.
inline std::vector<Tensor> evaluate(const Graph& graph, const std::vector<Output>& outputs,
                                    const FedValues& feeds = {}, const RunContext& step = {}) {
  HostRun host(graph, feeds, step);
  for (int32_t id : prune(graph, outputs, names_of(feeds))) host.run(graph.node(id));
  std::vector<Tensor> got;
  for (const Output& output : outputs) got.push_back(host.value(output));
  return got;
}

inline Tensor evaluate(Output output, const FedValues& feeds = {}, const RunContext& step = {}) {
  return evaluate(*output.graph, {output}, feeds, step)[0];
}

// The same on an accelerator, with soft placement: a node runs there if `device` has a kernel for
// it, otherwise on the CPU, and values are copied to their readers. Throws also: the errors that
// the device reports for a kernel in its queue.
inline std::vector<Tensor> evaluate_on(Device& device, const Graph& graph,
                                       const std::vector<Output>& outputs,
                                       const FedValues& feeds = {}, const RunContext& step = {}) {
  const auto wait = [](auto&& start) {
    std::promise<Tensor> promise;
    start([&](Errc code, const std::string& text, Tensor value) {
      if (code == Errc::ok)
        promise.set_value(std::move(value));
      else
        promise.set_exception(std::make_exception_ptr(Error(code, text)));
    });
    return promise.get_future().get();
  };
  // Even on an exception, no queued kernel may still read this graph.
  struct Drain {
    Device& device;
    ~Drain() {
      std::promise<void> promise;
      device.fence([&](Errc, const std::string&, Tensor) { promise.set_value(); });
      promise.get_future().wait();
    }
  } const drain{device};
  HostRun host(graph, feeds, step);
  FedValues there;  // values on the device
  const auto on_host = [&](const Output& output) {
    if (const auto it = there.find(output); it != there.end() && it->second.defined())
      host.keep(output, wait([&](Device::Done done) { device.copy_to_host(it->second, done); }));
    return host.value(output);
  };
  const auto on_device = [&](const Output& output) {
    Tensor& value = there[output];
    if (!value.defined())
      value = wait([&](Device::Done done) { device.copy_from_host(host.value(output), done); });
    return value;
  };
  for (int32_t id : prune(graph, outputs, names_of(feeds))) {
    const Node& node = graph.node(id);
    const Kernel* kernel = device.kernel_for(node);
    if (!kernel) {
      for (const Output& input : node.inputs) on_host(input);
      host.run(node);
      continue;
    }
    std::vector<Tensor> inputs;
    std::vector<uint32_t> slots;
    for (const Output& input : node.inputs) {
      slots.push_back(static_cast<uint32_t>(inputs.size()));
      inputs.push_back(on_device(input));
    }
    const NodeView view = NodeView::make(node, *kernel);
    std::vector<Tensor> results(node.outputs.size());
    KernelCall call;
    call.bind(view, inputs.data(), slots.data(), static_cast<int32_t>(slots.size()), results.data(),
              device.memory(), step, /*may_reuse_input0=*/false);
    device.launch(call);
    for (size_t i = 0; i < results.size(); ++i)
      there.insert_or_assign({const_cast<Graph*>(&graph), id, static_cast<int32_t>(i)}, results[i]);
  }
  wait([&](Device::Done done) { device.fence(done); });  // also reports nodes without outputs
  std::vector<Tensor> got;
  for (const Output& output : outputs) got.push_back(on_host(output));
  return got;
}

}  // namespace troupe

// A pass as text: the graph of a call before and after it, without the version line.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "devices/memory/heap_memory.hpp"
#include "devices/kernel_call.hpp"
#include "devices/run_context.hpp"
#include "graph/op.hpp"
#include "placement/passes/passes.hpp"
#include "tests/support/evaluate.hpp"
#include "troupe/custom_op.hpp"
#include "troupe/op.hpp"

namespace troupe {

using PassFunction = std::function<Edits(const CallGraph&)>;

inline const std::string kGraphHead = "troupe graph 1\n";

inline std::vector<Output> outputs_of(const Graph& graph, const std::vector<std::string>& names) {
  std::vector<Output> outputs;
  for (const std::string& name : names) outputs.push_back(graph.output(name));
  return outputs;
}

inline std::unique_ptr<Graph> graph_of(const std::string& lines) {
  return graph_from_text(kGraphHead + lines);
}

inline Rewritten rewrite(const PassFunction& pass, CallGraph call) {
  Edits edits = pass(call);
  return std::move(edits).apply(std::move(call));
}

inline CallGraph call_of(const Graph& graph, const std::vector<std::string>& fetches,
                         const std::vector<std::string>& feeds) {
  return call_graph(graph, outputs_of(graph, fetches), outputs_of(graph, feeds));
}

inline std::string text_of(const CallGraph& call) {
  return to_text(*call.graph).substr(kGraphHead.size());
}

// The graph `lines` after the pass; `fetches` names the outputs to keep.
inline std::string after(const PassFunction& pass, const std::string& lines,
                         const std::vector<std::string>& fetches,
                         const std::vector<std::string>& feeds = {}) {
  const auto graph = graph_of(lines);
  return text_of(rewrite(pass, call_of(*graph, fetches, feeds)).call);
}

// The pass changes nothing.
inline void check_left(const PassFunction& pass, const std::string& lines,
                       const std::vector<std::string>& fetches,
                       const std::vector<std::string>& feeds = {}) {
  CHECK(after(pass, lines, fetches, feeds) == lines);
}

// The fetches of both calls have the same bits. `value(shape, dtype)` makes the feeds.
template <class F>
void check_same_fetches(const CallGraph& before, const CallGraph& after, const F& value) {
  FedValues fed_before, fed_after;
  for (size_t i = 0; i < before.feeds.size(); ++i) {
    const Output feed = before.feeds[i];
    const Tensor given = value(feed.shape(), feed.dtype());
    fed_before.insert({feed, given});
    fed_after.insert({after.feeds[i], given});
  }
  const auto was = evaluate(*before.graph, before.fetches, fed_before);
  const auto is = evaluate(*after.graph, after.fetches, fed_after);
  for (size_t i = 0; i < was.size(); ++i) CHECK(same_bits(was[i], is[i]));
}

inline Edits no_edits(const CallGraph& call) { return Edits(call); }

// fold_constants with the plain kernels of the CPU. A node whose kernel throws is not folded.
inline Edits fold_here(const CallGraph& call) {
  return fold_constants(call, [](const Node& node, const std::vector<Tensor>& inputs) {
    HeapMemory memory;
    const Kernel* kernel = find_kernel(node, DeviceKind::cpu);
    if (!kernel || !kernel->run) return std::vector<Tensor>();
    try {
      return run_kernel(NodeView::make(node, *kernel), inputs, memory, RunContext{});
    } catch (const Error&) {
      return std::vector<Tensor>();
    }
  });
}

}  // namespace troupe

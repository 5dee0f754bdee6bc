// Shared by the two ops that write to a parameter: their attributes, and their position in the
// order of a step.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/frames.hpp"
#include "ops/state/parameter_ops.hpp"
#include "graph/parameter_nodes.hpp"

namespace troupe {

inline std::vector<AttrSpec> write_attrs() {
  return {{"parameter", AttrKind::text},
          {"replica", AttrKind::integer, int64_t{0}},
          {"add", AttrKind::boolean, false},  // adds to the values instead of replacing them
          {"number", AttrKind::integer}};     // among the writes of the parameter and the replica
}

inline constexpr OpProperties kWrites = {
    .parameter = {.kind = ParameterUse::writes, .parameter = parameter_of}};

// Orders a new write of the open frame after reads of the parameter for its replica and after
// earlier writes, by control inputs to the nodes that its frame can name. Returns the write's
// number.
inline int64_t place_write(const Graph& graph, std::string_view op, const std::string& parameter,
                           int64_t replica, std::vector<int32_t>& control_inputs, Origin at) {
  if (inside_loop(graph))
    throw refused(op, at, "it is inside a loop, but parameter ", parameter,
                  " is written once a step; let the loop return the value, and write it then");
  std::set<int32_t> around = {-1};  // the frames around it
  for (int32_t frame = current_frame(graph); frame >= 0; frame = graph.node(frame).frame)
    around.insert(frame);
  int64_t number = 0;
  for (const auto& node : graph.nodes()) {
    const bool writes = writes_values(*node);
    if (!writes && node->op->name != "Parameter") continue;
    if (node->attr<std::string>("parameter") != parameter ||
        node->attr<int64_t>("replica") != replica)
      continue;
    number += writes ? 1 : 0;
    if (around.count(node->frame)) control_inputs.push_back(node->id);
  }
  return number;
}

inline Output add_write(const char* op, const Node& parameter, std::vector<Output> inputs, bool add,
                        std::vector<int32_t> control_inputs, Origin at) {
  Graph& graph = *inputs.back().graph;
  const auto& name = parameter.attr<std::string>("parameter");
  if (!parameter.attr<std::string>("touched_rows").empty())
    throw refused(op, at, "parameter ", name,
                  " is a table whose rows are made on first touch, which gradients alone change; "
                  "write to a parameter made by parameter()");
  const int64_t replica = parameter.attr<int64_t>("replica");
  const int64_t number = place_write(graph, op, name, replica, control_inputs, at);
  return graph.add(
      {.op = op,
       .inputs = std::move(inputs),
       .attrs = {{"parameter", name}, {"replica", replica}, {"add", add}, {"number", number}},
       .control_inputs = std::move(control_inputs)},
      at);
}

}  // namespace troupe

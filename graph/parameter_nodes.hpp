// The effect of a node on a parameter, by the properties of its op.
#pragma once

#include <string>

#include "graph/op_properties.hpp"

namespace troupe {

inline bool reads_parameter(const Node& node) {
  return properties_of(node).parameter.kind == ParameterUse::reads;
}
inline bool pushes_gradient(const Node& node) {
  return properties_of(node).parameter.kind == ParameterUse::pushes;
}
inline bool writes_values(const Node& node) {
  return properties_of(node).parameter.kind == ParameterUse::writes;
}

// Requires: the node reads, pushes to or writes a parameter.
inline const std::string& parameter_name(const Node& node) {
  return properties_of(node).parameter.parameter(node);
}

// True for a push or write of rows: its first input names them.
inline bool names_rows(const Node& node) {
  return !node.op->inputs.empty() && node.op->inputs.front() == "indices";
}

}  // namespace troupe

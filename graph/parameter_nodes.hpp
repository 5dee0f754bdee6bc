// The effect of a node on a parameter, read from its attributes: an op that pushes a gradient names
// an optimizer, an op that writes values has a number. So no list of such ops exists.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "troupe/op.hpp"

namespace troupe {

// True if the node runs for its effect on the parameter that it names, and has this attribute
// besides.
inline bool changes_parameter(const Node& node, std::string_view attribute) {
  const auto name = node.attrs.find("parameter");
  return node.op->outputs.empty() && name != node.attrs.end() &&
         std::holds_alternative<std::string>(name->second) && node.attrs.count(attribute) > 0 &&
         node.attrs.count("replica") > 0;
}

// Sends the shards dL/d(parameter), all of it or some rows. Its replica is in attribute "replica".
inline bool pushes_gradient(const Node& node) { return changes_parameter(node, "optimizer"); }

// Changes the values without an optimizer. Its replica is in attribute "replica".
inline bool writes_values(const Node& node) { return changes_parameter(node, "number"); }

// True for a push or write of rows: its first input names them.
inline bool names_rows(const Node& node) {
  return !node.op->inputs.empty() && node.op->inputs.front() == "indices";
}

}  // namespace troupe

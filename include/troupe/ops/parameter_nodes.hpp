// What a node does to a parameter. Its op's attributes say so, where the op is defined: those that
// push a gradient name an optimizer, and those that write values a number. So nobody keeps a list
// of such ops.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "troupe/op.hpp"

namespace troupe {

// It is run for its effect on the parameter that it names, and has this attribute besides.
inline bool changes_parameter(const Node& node, std::string_view attribute) {
  const auto name = node.attrs.find("parameter");
  return node.op->outputs.empty() && name != node.attrs.end() &&
         std::holds_alternative<std::string>(name->second) && node.attrs.count(attribute) > 0 &&
         node.attrs.count("replica") > 0;
}

// Hands the shards dL/d(parameter), all of it or rows of it. Its replica is in attribute "replica".
inline bool pushes_gradient(const Node& node) { return changes_parameter(node, "optimizer"); }

// Changes the values without an optimizer. Its replica is in attribute "replica".
inline bool writes_values(const Node& node) { return changes_parameter(node, "number"); }

// Of one of the two: what it hands over are rows, which its first input names.
inline bool names_rows(const Node& node) {
  return !node.op->inputs.empty() && node.op->inputs.front() == "indices";
}

}  // namespace troupe

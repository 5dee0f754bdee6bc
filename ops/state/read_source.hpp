// The node that reads a source: what read_source() adds to a graph.
#pragma once

#include <string>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

struct SourceNode {
  std::string source;              // its text
  std::vector<TensorType> fields;  // of a step
  int64_t replicas = 1;
  bool ends = false;   // after some epochs
  Output number = {};  // undefined: the training step
};
// One output for each field, for the replica of the open scope. Throws: Error(invalid_argument).
std::vector<Output> add_source_node(Graph& graph, const SourceNode& node, Origin at);

}  // namespace troupe

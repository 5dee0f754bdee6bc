// The node that reads a source: what read_source() adds to a graph.
#pragma once

#include <string>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

struct SourceNode {
  std::string source;              // its text
  std::string seen;                // its fields' names and its files (data/source/seen.hpp)
  std::vector<TensorType> fields;  // of a step
  int64_t replicas = 1;
  bool ends = false;   // after some epochs
  Output number = {};  // undefined: the training step
};
// One output for each field, for the replica of the open scope. Throws: Error(invalid_argument).
std::vector<Output> add_source_node(Graph& graph, const SourceNode& node, Origin at);
// Sets `seen` and `fields` from a node of the graph that reads the same source for as many
// replicas; false if there is none.
bool find_source_node(const Graph& graph, SourceNode& node);

}  // namespace troupe

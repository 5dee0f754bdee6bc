// GraphState: what a Graph holds besides its registry. The library alone reads and writes it. Part
// of the implementation of troupe/graph.hpp.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "graph/device_name.hpp"
#include "troupe/graph.hpp"

namespace troupe {

// Maps a value of a frame that does not enclose the open one to a value that can be read there. A
// backward loop reads the values of its forward loop this way.
using FrameRoute = std::function<Output(Output)>;

// The properties that nodes made in a scope get; those of outer scopes are merged in.
struct OpenScope {
  // By frame, node, index of its output, and device.
  using Captured = std::map<std::tuple<int32_t, int32_t, int32_t, std::string>, Output>;

  std::string prefix;  // "" or "tower0/fc1/"
  DeviceName device;
  int64_t replica = 0;
  std::string colocate_with;
  std::vector<int32_t> control_inputs;
  bool has_origin = false;
  std::string file;
  int line = 0;
  int32_t frame = -1;
  int32_t recompute = -1;
  DType compute = DType::none;  // bf16 or f16 in a scope of mixed precision
  FrameRoute elsewhere;
  std::shared_ptr<Captured> captured;  // since the outermost frame was opened
};

// How gradients() goes back through a node instead of asking its op; set by with_gradient().
struct Backward {
  std::vector<Output> inputs;  // gradients go to these, whatever the node's own inputs are
  // One for each of `inputs`; undefined: none.
  std::function<std::vector<Output>(Output output_gradient)> build;
};

// Nodes that gradients() computes again (gradients/recompute.cpp).
struct RecomputeScope {
  std::string name;            // prefix of the names in it: "block1"
  int32_t parent = -1;         // the scope it was opened in
  int32_t frame = -1;          // the frame that was open
  std::vector<int32_t> nodes;  // ascending ids, those in nested scopes included
};

struct GraphState {
  std::vector<std::unique_ptr<Node>> nodes;
  std::map<std::string, int32_t, std::less<>> by_name;
  std::map<std::string, int64_t, std::less<>> next_suffix;  // where to look for a free name
  std::deque<OpenScope> scopes = std::deque<OpenScope>(1);  // a reference to one outlives others
  // Parts of this object only: writing a graph and reading it back loses them.
  std::map<int32_t, Backward> backwards;
  std::vector<RecomputeScope> recompute_scopes;
  std::map<int32_t, int32_t> originals;  // copy -> the node that it computes again
  // Parameters that are running averages (nn/nn_model.cpp), with the nodes of their values.
  std::multimap<std::string, int32_t> averages;
};

// Copies the nodes `ids` into a new graph and numbers them anew. `ids` is ascending and contains
// everything that these nodes read or run after. Attribute values are shared. Open scopes,
// backward functions and recompute scopes are not copied.
std::unique_ptr<Graph> copy_of(const Graph& graph, const std::vector<int32_t>& ids);

// Requires: the node has exactly one output, and the inputs of `backward` are earlier.
void set_backward(Graph& graph, int32_t node, Backward backward);
const Backward* backward_of(const Graph& graph, int32_t node);  // nullptr if there is none

// The node that this one computes again; itself if it is no such copy.
int32_t original_of(const Graph& graph, int32_t node);
// Requires: `original` is an earlier node with the outputs of `copy`.
void set_original(Graph& graph, int32_t copy, int32_t original);

// Casts the inputs of a new node of `op` as the open scope of mixed precision wants it
// (graph/mixed_precision.cpp).
void cast_inputs(Graph& graph, const Op& op, std::vector<Output>& inputs, Origin at);

}  // namespace troupe

// The copies that gradients() reads instead of nodes in scopes that are computed again
// (troupe/graph.hpp). Owned by a GradientPass; part of gradients/gradient_pass.hpp.
#pragma once

#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/graph_state.hpp"
#include "troupe/graph.hpp"

namespace troupe {

class GradientFrames;

class Recomputation {
 public:
  Recomputation(Graph& graph, GradientFrames& frames) : graph_(graph), frames_(frames) {}

  // Sets the program's final values. Copies run after those of them that are on the copy's device,
  // since a gradient may be known before the forward half has run.
  void set_ends(const std::vector<Output>& ys) { ends_ = ys; }
  // `node` as its gradient is to read it: its copy, which reads copies of its inputs; or itself if
  // it is not computed again. The copies of a scope are made when the first gradient arrives there,
  // and run after `arrived`.
  const Node& again(const Node& node, const std::vector<Output>& arrived, const FrameRoute& route);

 private:
  using Copies = std::unordered_map<int32_t, int32_t>;  // node -> copy
  bool repeats(const Node& node, int32_t scope) const;
  const Copies& copies_of(int32_t scope, const std::vector<Output>& arrived,
                          const FrameRoute& route);
  void copy(const Node& node, int32_t scope, const std::vector<Output>& arrived,
            const FrameRoute& route);
  Output outside(const Output& value, const Node& reader, int32_t scope,
                 const std::vector<Output>& arrived);
  std::vector<int32_t> controls(const Node& node, const std::vector<Output>& arrived) const;

  Graph& graph_;
  GradientFrames& frames_;
  std::vector<Output> ends_;
  std::map<int32_t, Copies> copies_;                                // by scope
  std::map<int32_t, std::map<Output, Output, OutputOrder>> gates_;  // by scope and value read
};

}  // namespace troupe

// The work of gradients(): one visit of the nodes between xs and ys, in falling order of ids.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "gradients/gradient_frames.hpp"
#include "gradients/recompute.hpp"
#include "gradients/saved_gradients.hpp"
#include "graph/graph_state.hpp"
#include "troupe/graph.hpp"

namespace troupe {

class GradientPass {
 public:
  GradientPass(Graph& graph, const std::vector<Output>& xs);

  // True if a gradient that arrives at `output` is wanted: the output is floating, and is an x or
  // depends on one.
  bool carries(const Output& output) const;
  void contribute(const Output& output, const Output& gradient);
  // Makes run() visit the node, though no gradient may arrive there.
  void visit(int32_t node) { open_.insert(node); }
  void run();
  void set_ends(const std::vector<Output>& ys) { again_.set_ends(ys); }
  Output total(const Output& output) const;

  GradientFrames& frames() { return frames_; }
  SavedGradients& saved() { return *saved_; }
  // For the pass through a loop's body, which the pass `outer` makes.
  void inherit(const GradientPass& outer) {
    frames_.inherit(outer.frames_);
    saved_ = outer.saved_;
  }

 private:
  bool depends(int32_t node) const {  // nodes that the pass itself has made do not depend on xs
    return static_cast<size_t>(node) < depends_.size() && depends_[static_cast<size_t>(node)];
  }
  void go_back(const Node& node);
  void go_back_control(const Node& node, const std::vector<Output>& output_gradients);
  // The node that a copy computes again, if gradients go to that one instead; otherwise the node
  // itself.
  int32_t stands_for(const Node& node) const;
  std::vector<Output> ask(const Node& node, std::vector<Output> output_gradients);
  Output sum(const Output& output);

  Graph& graph_;
  std::set<Output, OutputOrder> xs_;
  std::vector<bool> depends_;  // by node: some output depends on an x
  std::map<Output, std::vector<Output>, OutputOrder> contributions_;
  std::map<Output, Output, OutputOrder> totals_;
  std::set<int32_t> open_;  // nodes to visit
  GradientFrames frames_;
  Recomputation again_;
  std::shared_ptr<SavedGradients> saved_;
};

// Goes back through the loop with the outputs of `repeat` (gradients/loop_gradient.cpp).
void go_back_loop(Graph& graph, GradientPass& pass, const Node& repeat,
                  const std::vector<Output>& output_gradients);

}  // namespace troupe

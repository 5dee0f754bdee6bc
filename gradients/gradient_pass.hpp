// The work of gradients(): one visit of the nodes between xs and ys, in falling order of ids. The
// gradient of an output stands in the frame that corresponds to the output's own: the same frame,
// so that it is dead if the output was, or, for a loop, the body of the backward loop. Implemented
// in gradients/gradient.cpp, control_gradient.cpp and loop_gradient.cpp.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "gradients/recompute.hpp"
#include "gradients/saved_gradients.hpp"
#include "troupe/graph.hpp"

namespace troupe {

// The scope of nodes made on behalf of `node`: they have its device, replica, colocation and origin
// instead of the open scope's. Their names begin with that scope's, and they run after its control
// inputs.
class OnBehalf {
 public:
  OnBehalf(Graph& graph, const Node& node, int32_t frame, const Graph::Route& route);

 private:
  Graph::Scope cleared_;
  Graph::Scope like_node_;
  Graph::Scope frame_;
};

class GradientPass {
 public:
  GradientPass(Graph& graph, const std::vector<Output>& xs);

  // True if a gradient that arrives at `output` is wanted: the output is floating, and is an x or
  // depends on one.
  bool carries(const Output& output) const;
  void contribute(const Output& output, const Output& gradient);
  void run();
  void set_ends(const std::vector<Output>& ys) { again_.set_ends(ys); }
  Output total(const Output& output) const;

  // The frame for the gradients of values in `forward`.
  int32_t frame(int32_t forward);
  // Puts gradients of values in `forward` into `backward`; values of other frames are read by
  // `route`.
  void map_frame(int32_t forward, int32_t backward) { frames_[forward] = backward; }
  void inherit(const GradientPass& outer) {
    frames_ = outer.frames_;
    saved_ = outer.saved_;
  }
  void set_route(Graph::Route route) { route_ = std::move(route); }

 private:
  bool depends(int32_t node) const {  // nodes that the pass itself has made do not depend on xs
    return static_cast<size_t>(node) < depends_.size() && depends_[static_cast<size_t>(node)];
  }
  void go_back(const Node& node);
  // The node that a copy computes again, if gradients go to that one instead; otherwise the node
  // itself.
  int32_t stands_for(const Node& node) const;
  std::vector<Output> ask(const Node& node, std::vector<Output> output_gradients);
  Output sum(const Output& output);
  static void check(const Node& node, size_t i, const Output& target, const Output& gradient);

  // control_gradient.cpp
  void go_back_control(const Node& node, const std::vector<Output>& output_gradients);
  Output leave_frames(Output gradient, int32_t from, const Output& target);
  int32_t otherwise(int32_t forward);
  int32_t branch_like(int32_t forward, int32_t frame, bool turned);
  // loop_gradient.cpp
  void go_back_loop(const Node& repeat, const std::vector<Output>& output_gradients);
  struct Loop;
  Loop survey(const Node& repeat) const;
  std::vector<Output> go_back_once(const Node& repeat, const Loop& loop,
                                   const std::vector<Output>& variables);
  bool wanted_inside(const Node& node) const;
  void open_loops(int32_t around, int32_t before);

  Graph& graph_;
  std::set<Output> xs_;
  std::vector<bool> depends_;  // by node: some output depends on an x
  std::map<Output, std::vector<Output>> contributions_;
  std::map<Output, Output> totals_;
  std::set<int32_t> open_;              // nodes with contributions that have not been visited
  std::map<int32_t, int32_t> frames_;   // forward frame -> frame of its gradients
  std::map<int32_t, int32_t> untaken_;  // frame -> a frame that runs when that one does not
  Graph::Route route_;
  Recomputation again_;
  std::shared_ptr<SavedGradients> saved_;
};

Output zeros_of(Output x);  // gradients/control_gradient.cpp

}  // namespace troupe

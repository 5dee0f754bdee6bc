// GradientFrames: the frames that gradients stand in. A gradient stands in the frame that
// corresponds to its value's own: the same frame, so that it is dead if the value was, or, for a
// loop, the body of the backward loop.
#pragma once

#include <map>
#include <utility>

#include "graph/frames.hpp"

namespace troupe {

// The scope of nodes made on behalf of `node`: they have its device, replica, colocation and origin
// instead of the open scope's. Their names begin with that scope's, and they run after its control
// inputs.
class OnBehalf {
 public:
  OnBehalf(Graph& graph, const Node& node, int32_t frame, const FrameRoute& route);

 private:
  Graph::Scope cleared_;
  Graph::Scope like_node_;
  Graph::Scope frame_;
};

class GradientFrames {
 public:
  explicit GradientFrames(Graph& graph) : graph_(graph) {}

  // The frame for the gradients of values in `forward`.
  int32_t of(int32_t forward);
  bool is_mapped(int32_t forward) const { return frames_.count(forward) > 0; }
  // Puts gradients of values in `forward` into `backward`.
  void map(int32_t forward, int32_t backward) { frames_[forward] = backward; }
  // Puts gradients of values in any frame where `outer` puts them.
  void inherit(const GradientFrames& outer) { frames_ = outer.frames_; }
  // By the route, values of frames that do not enclose a gradient's own are read.
  const FrameRoute& route() const { return route_; }
  void set_route(FrameRoute route) { route_ = std::move(route); }
  // Moves `gradient` from the frame for gradients of values in `from` to that for gradients of
  // `target`, which is in a frame around `from`.
  Output leave(Output gradient, int32_t from, const Output& target);

 private:
  int32_t otherwise(int32_t forward);
  int32_t branch_like(int32_t forward, int32_t frame, bool turned);

  Graph& graph_;
  std::map<int32_t, int32_t> frames_;   // forward frame -> frame of its gradients
  std::map<int32_t, int32_t> untaken_;  // frame -> a frame that runs when that one does not
  FrameRoute route_;
};

Output zeros_of(Output x);

}  // namespace troupe

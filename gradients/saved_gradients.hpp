// The gradients that pass between loops in second derivatives. A backward loop restores values that
// the forward loop saved; gradients that arrive at the restored values belong to the saved values.
// The loop that goes back through the backward loop meets them in the order of saving, so it saves
// the gradients itself, and the loop that goes back through the forward loop restores them, last
// first. Shared by a pass of gradients() and the passes that it makes for bodies. Implemented in
// gradients/saved_gradients.cpp.
#pragma once

#include <utility>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

int32_t innermost_loop(const Graph& graph, int32_t frame);  // around `frame`; -1: none
int32_t loop_of(const Graph& graph, const Node& repeat);
const Node& repeat_of(const Graph& graph, int32_t loop);
// The value that a Save keeps for `restore`.
Output saved_for(const Graph& graph, const Node& restore);

class SavedGradients {
 public:
  explicit SavedGradients(Graph& graph) : graph_(graph) {}

  // Saves, in the open frame, a gradient of the value that `restore` takes.
  void keep(const Node& restore, const Output& gradient);
  bool any_inside(int32_t loop) const;
  // The loops directly in `around`, in no loop inside it, that have saved gradients inside them.
  std::vector<int32_t> loops_in(int32_t around) const;
  // For values directly in `loop`, in no loop inside it: the value, and the Save of a gradient of
  // it.
  std::vector<std::pair<Output, int32_t>> of(int32_t loop) const;
  // Takes, in the open frame, the value that the Save kept last.
  Output restored(int32_t save) const;
  // The loops that save the gradients of values in `loop`; they must run before these are restored
  // in the open frame.
  std::vector<int32_t> before(int32_t loop) const;

 private:
  Graph& graph_;
  std::vector<std::pair<Output, int32_t>> kept_;
};

}  // namespace troupe

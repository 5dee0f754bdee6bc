// What gradients of loops' gradients hand on. A loop that goes back restores values that the loop
// which went forward had saved; the gradients that come to them there belong to the saved values.
// The loop that goes back through it comes to them in the order in which they were saved, so it
// saves them itself, and the loop that goes back through the first one restores them, last first.
// Shared by a pass of gradients() and those that it makes for bodies. Implemented in
// gradients/saved_gradients.cpp.
#pragma once

#include <utility>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

int32_t innermost_loop(const Graph& graph, int32_t frame);  // around what is in `frame`; -1: none
int32_t loop_of(const Graph& graph, const Node& repeat);
const Node& repeat_of(const Graph& graph, int32_t loop);
// The value that a Save keeps for `restore`.
Output saved_for(const Graph& graph, const Node& restore);

class SavedGradients {
 public:
  explicit SavedGradients(Graph& graph) : graph_(graph) {}

  // Saves, in the open frame, a gradient of what `restore` gives.
  void keep(const Node& restore, const Output& gradient);
  bool any_inside(int32_t loop) const;
  // The loops that have some inside them and are in `around` themselves, not in a loop inside it.
  std::vector<int32_t> loops_in(int32_t around) const;
  // Of values in `loop`, but in no loop inside it: the value, and the Save of a gradient of it.
  std::vector<std::pair<Output, int32_t>> of(int32_t loop) const;
  // In the open frame, what the Save has kept last.
  Output restored(int32_t save) const;
  // What has saved those of `loop`, and must have run before they are restored in the open frame.
  std::vector<int32_t> before(int32_t loop) const;

 private:
  Graph& graph_;
  std::vector<std::pair<Output, int32_t>> kept_;
};

}  // namespace troupe

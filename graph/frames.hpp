// Frames of a graph: the branch, loop body or function body that is open, and how its nodes read
// values from outside.
#pragma once

#include "graph/graph_state.hpp"

namespace troupe {

// Nodes added while it is open are in the frame that node `opener` opens (-1: in no frame). Values
// that they read from enclosing frames are captured, once per scope; nodes without inputs run after
// the opener. `elsewhere` maps values of other frames; left out: that of the open scope. Throws:
// Error(invalid_argument) for a node that opens no frame.
[[nodiscard]] Graph::Scope open_frame(Graph& graph, int32_t opener, FrameRoute elsewhere = {},
                                      Origin at = Origin::here());
int32_t current_frame(const Graph& graph);  // the open one; -1: none
// `value` as nodes of the open frame read it: itself, or a Capture node of it. Throws:
// Error(invalid_argument) for a value of a frame that does not enclose the open one.
Output captured(Graph& graph, Output value, Origin at = Origin::here());
bool encloses(const Graph& graph, int32_t outer, int32_t inner);  // true also for equal frames

// Makes a new node read its inputs inside its frame, and run after the opener if nothing else ties
// it to the frame. Throws: Error(invalid_argument) for a node that its frame cannot hold.
void enter_frame(Graph& graph, Node& node, Origin at);

}  // namespace troupe

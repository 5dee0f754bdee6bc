// Warnings about the graph of a training call: what is built right, but hardly meant. Owner: none,
// plain functions. Thread: any.
#pragma once

#include <string>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

struct TrainingWarnings {
  std::vector<std::string> still;  // running averages that the call computes and does not move
  struct Unread {
    std::string parameter, nearest;  // that no node reads; the most similar name that one reads
  };
  std::vector<Unread> unread;
};
// For a call that pushes gradients and runs `nodes`; none for another call.
TrainingWarnings training_warnings(const Graph& graph, const std::vector<int32_t>& nodes);

}  // namespace troupe

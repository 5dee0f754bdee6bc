// The parameters of a graph, as the nodes that read, push to and write them say.
// Owner: values. Thread: one that may read the graph.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/graph.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {

// The optimizer of each parameter that is pushed to, and the replicas that push.
struct Pushed {
  std::map<std::string, Optimizer> optimizers;
  std::set<int32_t> replicas;
  std::set<std::string> filled;  // parameters whose gradient is by rows, and pushed with all zeros
};

// Throws: Error(invalid_argument) for a parameter with two optimizers, or one that is trained and
// written.
Pushed pushed_in(const Graph& graph);

// Throws: Error(invalid_argument) that begins with `caller`, for a scale that no optimizer can
// have, and for one that an optimizer of the graph cannot have, naming its parameter.
void check_rate_scale(const Graph& graph, double scale, std::string_view caller);
// The same for these parameters and their optimizers. Thread: any.
void check_rate_scale(const std::map<std::string, Optimizer>& optimizers, double scale,
                      std::string_view caller);

// The Parameter nodes of the parameters that these nodes read, push to or write.
std::set<int32_t> parameter_nodes(const Graph& graph, const std::vector<int32_t>& nodes);

}  // namespace troupe

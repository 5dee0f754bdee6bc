// recompute: memory for time. Of what is made in such a scope the backward half keeps nothing: it
// has what it needs of it computed again, from what the scope reads, right before it goes back
// through the scope (gradient checkpointing; Griewank and Walther 2000, Chen et al. 2016).
// Implemented in gradients/recompute.cpp.
//
//   {
//     const auto scope = recompute(graph, "block1");
//     x = nn::residual_block(model, x, 16);
//   }
//   const Output update = minimize(loss, momentum(0.1));  // or gradients()
//
// Values and gradients keep every bit: random numbers are drawn again by the same key. Left as they
// are and kept: parameters, feeds, queues and whatever else has a state; branches and loops, which
// have `recompute` of their own (troupe/ops/control_flow.hpp); and what a backward function of
// with_gradient() reads itself. A scope in a scope is computed again twice, and of the outer one
// less is there at once.
//
// The scopes are part of the Graph object alone: a graph that is written down and read again, or
// copied, has forgotten them. The nodes that gradients() has made for them stay, as nodes like any.
#pragma once

#include <string>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

// Nodes added while it is open are computed again. `name`: as ScopeSpec::name; empty: names go on.
// Throws: Error(invalid_argument) for a bad name.
[[nodiscard]] Graph::Scope recompute(Graph& graph, std::string name = {},
                                     Origin at = Origin::here());

// What a scope costs and saves in a call. Dimensions that only a step knows count as 1.
struct RecomputedScope {
  std::string name;
  int64_t nodes = 0;  // that run again
  double flops = 0;   // of products and the like among them (Op::flops), where shapes are known
  // What it reads, and is kept until the backward half is there; what has a state not counted.
  int64_t kept_bytes = 0;
  // What the backward half would read of its nodes, and need not be kept any more.
  int64_t freed_bytes = 0;
};
// By scope, in the order in which they were opened; those of which the call computes nothing again
// are left out; of a graph that was read from text there are none. Throws:
// Error(invalid_argument) for fetches and feeds as explain_passes() does.
std::vector<RecomputedScope> recomputed(const Graph& graph, const std::vector<Output>& fetches,
                                        const std::vector<Output>& feeds = {});

}  // namespace troupe

// recompute: trades time for memory. The backward half keeps no values of nodes made in such a
// scope: those it needs are computed again, from the inputs of the scope, right before it goes back
// through the scope (gradient checkpointing; Griewank and Walther 2000, Chen et al. 2016).
// Implemented in gradients/recompute.cpp.
//
//   {
//     const auto scope = recompute(graph, "block1");
//     x = nn::residual_block(model, x, 16);
//   }
//   const Output update = minimize(loss, momentum(0.1));  // or gradients()
//
// Values and gradients keep every bit: random numbers are drawn again with the same key. Not
// computed again, but kept: parameters, feeds, queues and everything else with state; branches and
// loops, which have a `recompute` of their own (troupe/ops/control_flow.hpp); and the values that a
// backward function of with_gradient() reads itself. A nested scope is computed again twice, and
// the outer scope then holds less at once.
//
// The scopes are part of the Graph object only: writing a graph and reading it back, or copying it,
// loses them. The nodes that gradients() has made for them stay, as ordinary nodes.
#pragma once

#include <string>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

// Nodes added while it is open are computed again. `name`: as ScopeSpec::name; empty: names are not
// nested. Throws: Error(invalid_argument) for a bad name.
[[nodiscard]] Graph::Scope recompute(Graph& graph, std::string name = {},
                                     Origin at = Origin::here());

// The cost and saving of a scope in a call. Dimensions that only a step knows count as 1.
struct RecomputedScope {
  std::string name;
  int64_t nodes = 0;  // nodes that run again
  double flops = 0;   // of products and the like among them (Op::flops), if shapes are known
  // Inputs of the scope that are kept until the backward half needs them, without those that have
  // state.
  int64_t kept_bytes = 0;
  // Values of its nodes that the backward half would read, and that need not be kept any more.
  int64_t freed_bytes = 0;
};
// By scope, in the order in which they were opened. Left out: scopes of which the call computes
// nothing again. Empty for a graph that was read from text. Throws: Error(invalid_argument) for
// fetches and feeds as explain_passes() does.
std::vector<RecomputedScope> recomputed(const Graph& graph, const std::vector<Output>& fetches,
                                        const std::vector<Output>& feeds = {});

}  // namespace troupe

// What while_loop, scan and map_rows are built with: a frame with variables, a branch in it for the
// body, and the While node outside. Requires: a scope with the loop's name is open.
#pragma once

#include "ops/composition.hpp"
#include "troupe/ops/control_flow.hpp"

namespace troupe {

class LoopBuilder {
 public:
  LoopBuilder(Graph& graph, const WhileOptions& options, Origin at)
      : graph_(graph), at_(at), outside_(graph.frame()) {
    opener_ = graph
                  .add({.op = "Loop",
                        .attrs = {{"iterations_in_flight", options.iterations_in_flight},
                                  {"recompute", options.recompute}}},
                       at)
                  .node;
  }

  int32_t outside() const { return outside_; }
  int32_t frame() const { return opener_; }
  // Of the loop, at any time before finish().
  Output variable(Output initial, const Shape& shape) {
    const auto frame = graph_.open_frame(opener_, {}, at_);
    const auto together = graph_.scope({.colocate_with = graph_.node(opener_).name}, at_);
    return variables_.emplace_back(graph_.add({.op = "LoopVariable",
                                               .inputs = {initial},
                                               .attrs = {{"shape", shape}},
                                               .name = "variable"},
                                              at_));
  }
  // The frame of the body, which runs while `again` is true. Requires: frame() is open.
  int32_t body(Output again) {
    return graph_
        .add({.op = "Branch",
              .inputs = {again},
              .attrs = {{"branch", int64_t{1}}, {"branches", int64_t{2}}},
              .name = "again"},
             at_)
        .node;
  }
  // What the variables are in the end. `next`: of each, inside the body.
  std::vector<Output> finish(const std::vector<Output>& next) {
    std::vector<Output> inputs = variables_;
    inputs.insert(inputs.end(), next.begin(), next.end());
    const auto frame = graph_.open_frame(outside_, {}, at_);
    const auto together = graph_.scope({.colocate_with = graph_.node(opener_).name}, at_);
    std::vector<Output> results =
        all_outputs(graph_.add({.op = "While", .inputs = std::move(inputs)}, at_));
    results.pop_back();  // the number of iterations, for gradients
    return results;
  }
  const std::vector<Output>& variables() const { return variables_; }

 private:
  Graph& graph_;
  const Origin at_;
  const int32_t outside_;
  int32_t opener_ = -1;
  std::vector<Output> variables_;
};

}  // namespace troupe

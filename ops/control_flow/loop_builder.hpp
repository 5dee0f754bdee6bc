// LoopBuilder: builds while_loop, scan and map_rows: a frame with variables, a branch in it for the
// body, and the While node outside. Requires: a scope with the loop's name is open. Nested builders
// of one thread are linked, so that a node added to a body can ask its loop to count
// (ops/control_flow/iteration_path.cpp).
#pragma once

#include "graph/frames.hpp"
#include "ops/elementwise/composition.hpp"
#include "troupe/ops/control_flow.hpp"

namespace troupe {

class LoopBuilder {
 public:
  LoopBuilder(Graph& graph, const WhileOptions& options, Origin at)
      : graph_(graph), at_(at), outside_(current_frame(graph)), around_(innermost_) {
    opener_ = graph
                  .add({.op = "Loop",
                        .attrs = {{"iterations_in_flight", options.iterations_in_flight},
                                  {"recompute", options.recompute}}},
                       at)
                  .node;
    innermost_ = this;
  }
  ~LoopBuilder() { innermost_ = around_; }
  LoopBuilder(const LoopBuilder&) = delete;
  LoopBuilder& operator=(const LoopBuilder&) = delete;

  // This thread's builder of the loop that `frame` opens; nullptr if there is none.
  static LoopBuilder* of(const Graph& graph, int32_t frame);

  int32_t outside() const { return outside_; }
  int32_t frame() const { return opener_; }
  // Adds a variable of the loop, at any time before finish().
  Output variable(Output initial, const Shape& shape, bool counts = false) {
    const auto frame = open_frame(graph_, opener_, {}, at_);
    const auto together = graph_.scope({.colocate_with = graph_.node(opener_).name}, at_);
    return variables_.emplace_back(graph_.add({.op = "LoopVariable",
                                               .inputs = {initial},
                                               .attrs = {{"shape", shape}, {"counts", counts}},
                                               .name = "variable"},
                                              at_));
  }
  // A variable that starts at 0; finish() or the builder's caller increments it in each iteration.
  Output counting_variable(Output zero) {
    counter_ = variables_.size();
    return variable(zero, {}, true);
  }
  // The iteration number. Makes its variable if there is none, after the other variables.
  Output counter();
  // The frame of the body, which runs while `again` is true. Requires: frame() is open.
  int32_t body(Output again) {
    return body_ = graph_
                       .add({.op = "Branch",
                             .inputs = {again},
                             .attrs = {{"branch", int64_t{1}}, {"branches", int64_t{2}}},
                             .name = "again"},
                            at_)
                       .node;
  }
  // The final values of the variables. `next`: the next value, inside the body, of each variable
  // that the caller made.
  std::vector<Output> finish(const std::vector<Output>& next) {
    std::vector<Output> inputs = variables_;
    inputs.insert(inputs.end(), next.begin(), next.end());
    if (own_counter_) inputs.push_back(next_of_counter());
    const auto frame = open_frame(graph_, outside_, {}, at_);
    const auto together = graph_.scope({.colocate_with = graph_.node(opener_).name}, at_);
    std::vector<Output> results =
        all_outputs(graph_.add({.op = "While", .inputs = std::move(inputs)}, at_));
    results.resize(next.size());  // drops the number of iterations, which only gradients use
    return results;
  }
  const std::vector<Output>& variables() const { return variables_; }

 private:
  static constexpr size_t kNoCounter = ~size_t{0};
  static thread_local LoopBuilder* innermost_;

  Output next_of_counter();

  Graph& graph_;
  const Origin at_;
  const int32_t outside_;
  LoopBuilder* const around_;
  int32_t opener_ = -1, body_ = -1;
  std::vector<Output> variables_;
  size_t counter_ = kNoCounter;
  bool own_counter_ = false;  // only finish() increments it
};

}  // namespace troupe

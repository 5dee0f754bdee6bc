// Conditions and loops as part of a graph. Their branches and bodies are ordinary nodes: in the
// same graph, placed on any device, with gradients. Each is in a frame (Node::frame), and values
// that it reads from outside are captured. Implemented in ops/control_flow/control_flow.cpp,
// ops/control_flow/while_loop.cpp and ops/control_flow/scan_rows.cpp.
//
// A branch that is not taken does not run: neither its kernels nor its effects (random numbers,
// pushes, checks). Only returned values can be fetched, fed or read from outside; so make
// placeholders outside.
// As everywhere, a node that no fetch needs does not run: return an effect, or make it a control
// input of a returned value.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

// Adds nodes, and returns those whose values the branch gives.
using BranchBuilder = std::function<std::vector<Output>()>;

// The values of `then` if `predicate`, a bool scalar, is true, else those of `otherwise`. Both
// return the same number of values, of the same dtypes and numbers of dimensions; a size in which
// they differ is -1. A node without outputs (a push, a group) gives a bool scalar: that it has run.
// Throws: Error(invalid_argument) naming cond, the caller's line, and the difference.
std::vector<Output> cond(Output predicate, const BranchBuilder& then,
                         const BranchBuilder& otherwise, std::string_view name = "cond",
                         Origin at = Origin::here());
// The same for one value.
Output cond(Output predicate, const std::function<Output()>& then,
            const std::function<Output()>& otherwise, std::string_view name = "cond",
            Origin at = Origin::here());
// The values of branch number `index`, an i32 or i64 scalar; those of the last branch for an index
// out of range.
std::vector<Output> switch_case(Output index, const std::vector<BranchBuilder>& branches,
                                std::string_view name = "switch", Origin at = Origin::here());

struct WhileOptions {
  // The most iterations under way at once in a loop over several devices: so far may the device of
  // its variables be ahead of the others. On one device iterations run one after another.
  int64_t iterations_in_flight = 8;
  // How the gradient gets the values of an iteration. false: kept, one value an iteration for each
  // node that is needed. true: only the variables are kept, and the rest is computed again.
  bool recompute = false;
  // Shapes of the variables; empty: those of the initial values. A size that changes from one
  // iteration to the next is -1.
  std::vector<Shape> shapes = {};
  std::string_view name = "while";
};
using LoopCondition = std::function<Output(const std::vector<Output>& variables)>;
using LoopBody = std::function<std::vector<Output>(const std::vector<Output>& variables)>;

// The final values of the variables, which begin as `initial` and become the results of `body` as
// long as `condition`, a bool scalar, is true before it. The loop and its variables stand where the
// open scope says; the body where it says itself. Gradients flow through floating variables and to
// captured values, of any order. Random numbers in a body differ by the number of the iteration.
// Throws: Error(invalid_argument) naming while_loop, the caller's line, and the variable that
// changes its dtype or shape.
std::vector<Output> while_loop(const LoopCondition& condition, const LoopBody& body,
                               const std::vector<Output>& initial, const WhileOptions& options = {},
                               Origin at = Origin::here());

// The results of one step of a scan: values for the next step, and values to keep.
struct Scanned {
  std::vector<Output> carry;
  std::vector<Output> rows;
};
// Called with the carry of the step before (first: `initial`), and a row of each x.
using ScanStep =
    std::function<Scanned(const std::vector<Output>& carry, const std::vector<Output>& rows)>;
// Runs a step for each row of `xs`, which are [rows, ...] with equal numbers of rows. Returns the
// last step's carry and, for each kept value, its values of all steps, [rows, ...]. The shape of
// such a value in a step must be known while building. Gradients as in while_loop. Throws:
// Error(invalid_argument) naming scan, the caller's line, and what does not fit; numbers of rows
// that only a step knows fail the step in the same way.
Scanned scan(const ScanStep& step, const std::vector<Output>& initial,
             const std::vector<Output>& xs, const WhileOptions& options = {.name = "scan"},
             Origin at = Origin::here());
// The results of `f` for each row of `xs`, as rows: scan without a carry.
std::vector<Output> map_rows(const LoopBody& f, const std::vector<Output>& xs,
                             const WhileOptions& options = {.name = "map"},
                             Origin at = Origin::here());

}  // namespace troupe

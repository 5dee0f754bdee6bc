// Conditions and loops as part of a graph. Their branches and bodies are nodes like others: in the
// same graph, placed on any device, with gradients. Each is in a frame (Node::frame), and what it
// reads of its surroundings is captured. Implemented in ops/control_flow/control_flow.cpp,
// ops/control_flow/while_loop.cpp and ops/control_flow/scan_rows.cpp.
//
// A branch that is not taken does not run: neither its kernels nor its effects (random numbers,
// pushes, checks). From outside nothing inside can be fetched, fed or read but what is returned; so
// placeholders are made outside.
// As everywhere, what nothing that is fetched needs does not run: an effect is returned, or named
// as a control input of what is returned.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

// Adds nodes, and returns those whose values the branch gives.
using BranchBuilder = std::function<std::vector<Output>()>;

// What `then` returns if `predicate`, a bool scalar, is true, else what `otherwise` returns. Both
// return as many, of the same dtypes and numbers of dimensions; a size in which they differ is -1.
// A node without outputs (a push, a group) gives a bool scalar: that it has run.
// Throws: Error(invalid_argument) naming cond, the caller's line, and what differs.
std::vector<Output> cond(Output predicate, const BranchBuilder& then,
                         const BranchBuilder& otherwise, std::string_view name = "cond",
                         Origin at = Origin::here());
// For one value each.
Output cond(Output predicate, const std::function<Output()>& then,
            const std::function<Output()>& otherwise, std::string_view name = "cond",
            Origin at = Origin::here());
// What branch number `index` returns, i32 or i64 scalar; the last branch for an index that none
// has.
std::vector<Output> switch_case(Output index, const std::vector<BranchBuilder>& branches,
                                std::string_view name = "switch", Origin at = Origin::here());

struct WhileOptions {
  // So many are under way at most: between devices; and of a loop with slow nodes that is all on
  // one CPU and in no called function, as of each loop in it. Effects keep the iterations' order.
  int64_t iterations_in_flight = 8;
  // What a gradient needs of the iterations: kept (one value each iteration for each node that is
  // needed), or only the variables kept, and the rest computed again.
  bool recompute = false;
  // Of the variables; empty: those of the initial values. A size that changes from one iteration to
  // the next is -1.
  std::vector<Shape> shapes = {};
  std::string_view name = "while";
};
using LoopCondition = std::function<Output(const std::vector<Output>& variables)>;
using LoopBody = std::function<std::vector<Output>(const std::vector<Output>& variables)>;

// The variables, which begin as `initial`, after they have become what `body` makes of them as
// often as `condition`, a bool scalar, held before. The loop and its variables stand where the open
// scope says; the body where it says itself. Gradients flow through floating variables, and to what
// is captured, of any order. Random numbers in a body are others in each iteration, by its number.
// Throws: Error(invalid_argument) naming while_loop, the caller's line, and which variable changes
// its dtype or shape.
std::vector<Output> while_loop(const LoopCondition& condition, const LoopBody& body,
                               const std::vector<Output>& initial, const WhileOptions& options = {},
                               Origin at = Origin::here());

// What one step of a scan makes: what the next one gets, and what is kept of this one.
struct Scanned {
  std::vector<Output> carry;
  std::vector<Output> rows;
};
// Called with what the step before has made (first: `initial`), and a row of each x.
using ScanStep =
    std::function<Scanned(const std::vector<Output>& carry, const std::vector<Output>& rows)>;
// A step for each row of `xs`, which are [rows, ...] and have as many: the last step's carry, and
// of each value that the steps keep all of them, [rows, ...]. The shape of such a value in a step
// must be known while building. Gradients as of while_loop. Throws: Error(invalid_argument) naming
// scan, the caller's line, and what does not fit; numbers of rows that only a step knows fail it
// so.
Scanned scan(const ScanStep& step, const std::vector<Output>& initial,
             const std::vector<Output>& xs, const WhileOptions& options = {.name = "scan"},
             Origin at = Origin::here());
// What `f` makes of each row of `xs`, as rows: scan without a carry.
std::vector<Output> map_rows(const LoopBody& f, const std::vector<Output>& xs,
                             const WhileOptions& options = {.name = "map"},
                             Origin at = Origin::here());

}  // namespace troupe

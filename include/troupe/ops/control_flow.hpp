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
#include <string>
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

// ----------------------------------------------------------------------------------------------
// Functions of a graph: defined once, called any number of times, by each other and by themselves.
// Implemented in gradients/functions.cpp and gradients/function_copy.cpp.
//
//   Function area = define_function(graph, "area", {{DType::f32, Shape{}}},
//       [&](const auto& x) { return std::vector<Output>{multiply(square(x[0]), pi)}; });
//   Output both = area({r})[0] + area({s})[0];
//
//   const TensorType number{DType::i64, Shape{}};
//   Function fib = declare_function(graph, "fib", {number}, {number});
//   fib.define([&](const auto& n) {
//     return cond(less(n[0], two), [&] { return n; },
//                 [&] { return std::vector<Output>{fib({n[0] - 1})[0] + fib({n[0] - 2})[0]}; });
//   });
//
// A function that does not call itself, directly or through others, is copied to each of its calls:
// each call has nodes of its own, in the scope, frame and on the device of the call, with
// gradients. All calls share the values that it reads from outside, parameters above all.
//
// Its body may push gradients and write parameters (troupe/ops/parameters.hpp): each call does. All
// writes of a step count. Only one push counts for each parameter, replica and step, so a step in
// which two calls would push to one parameter is refused when it is prepared, unless they are in
// different branches of one choice: return the gradients, and push the sum of the calls' results. A
// branch that is not taken pushes and writes nothing, and the step passes without; under the
// synchronous rule the parameter is then not updated in this step, and pushes of other replicas to
// it fail as `stale`. Such a function cannot be called in a loop, which would push or write in each
// iteration. A parameter() in a body needs an initial value that was made outside.
//
// A function that calls itself is a Call node, which runs the body on the device where the Call
// stands, a cpu: device requests in the body are ignored. Its activations are on the heap, one for
// each call under way. It has gradients, of any order: a function that computes the body again and
// goes back through it, calling itself where the body did. So going back through n nested calls
// computes up to n * n / 2 bodies again, if their results are needed for it. Random numbers in it
// differ in each call, by the positions of the calls that lead to it. It cannot push or write.

// Adds nodes, and returns those whose values the call gives.
using FunctionBody = std::function<std::vector<Output>(const std::vector<Output>& arguments)>;

struct FunctionOptions {
  // The most nested calls of a function that calls itself, from 1 to 10^9; one more fails the step.
  // Each call holds the memory of its body until it returns: some kilobytes, and tensors.
  int64_t depth_max = 100'000;
};

// A function of a graph, by number; copies denote the same function. The graph owns it.
class Function {
 public:
  Function() = default;  // none
  // The node that stands for it. Requires: it opens a function. find_function() returns these.
  explicit Function(Output node) : node_(node) {}

  bool defined() const;             // has a body
  const std::string& name() const;  // with its scopes: "tower0/fib"
  const Output& node() const { return node_; }

  // Builds the body: `body` is called once, here. Values that it reads from outside must be
  // available wherever the function is called. A node without outputs that it returns gives a bool
  // scalar: that it has run. Throws: Error(invalid_argument) naming the function and the caller's
  // line for an empty Function, if it has a body already, if `body` is empty, and if its results
  // are empty, undefined, of another graph or not of the declared types; and any exception of
  // `body`.
  void define(const FunctionBody& body, Origin at = Origin::here());

  // The results of the body for these arguments. Before define(), only bodies of functions may call
  // it. Throws: Error(invalid_argument) naming the function, the caller's line, what was given and
  // what is wanted, for arguments that do not fit; for an empty Function and one of another graph;
  // and for a call before define() without declared results.
  std::vector<Output> operator()(const std::vector<Output>& arguments,
                                 Origin at = Origin::here()) const;

 private:
  Output node_;
};

// A function that will be defined: its name, within the open scopes, and the types of its arguments
// and results, -1 for sizes that differ from call to call. `results` may be empty if it is not
// called before it is defined; the body then determines them. A function that calls itself needs an
// argument. Throws: Error(invalid_argument) for an empty name, a name that cannot be a node's, a
// type without a dtype, and a depth_max that is not in [1, 10^9].
Function declare_function(Graph& graph, std::string_view name, std::vector<TensorType> arguments,
                          std::vector<TensorType> results, const FunctionOptions& options = {},
                          Origin at = Origin::here());

// Declares and defines a function that does not call itself. Throws: as the two do.
Function define_function(Graph& graph, std::string_view name, std::vector<TensorType> arguments,
                         const FunctionBody& body, const FunctionOptions& options = {},
                         Origin at = Origin::here());

// The function of that name, for a graph that was read from text. Throws: Error(invalid_argument)
// if there is none, listing the existing ones.
Function find_function(Graph& graph, std::string_view name, Origin at = Origin::here());

// ----------------------------------------------------------------------------------------------
// The iteration of each loop, and the call of a function, that a node will run in: for ops whose
// values must differ between iterations and calls, as random numbers do. Implemented in
// ops/control_flow/iteration_path.cpp.

// For a node that is added in the open frame: i64 scalars, the outermost first. There is one for
// each loop around it, the number of its iteration from 0 on, preceded by one for the call if the
// node is in the body of a function that calls itself. Empty outside of both. In the body of a
// function that is copied to its calls the path stops at the body; the copies get the rest from
// their surroundings. An op takes them as its last inputs, with the name "path...?", which stands
// for none or more.
std::vector<Output> iteration_path(Graph& graph);

// ----------------------------------------------------------------------------------------------
// Check: a condition that must be true while a graph runs, like assertions of other frameworks.
// Implemented in ops/control_flow/check.cpp. check_finite() is in troupe/ops.hpp.

// x itself, of any type, if all elements of `condition`, bool of any shape, are true; so a reader
// of the result never runs without the check. Otherwise the step fails with Errc::bad_data, saying
// `what`, how many elements are false, and where the first one is:
//   ids = check(ids, less(ids, rows), "ids are below the number of rows");
// Gradients flow through x. Throws: Error(invalid_argument) for a condition that is not bool.
Output check(Output x, Output condition, std::string_view what, Origin at = Origin::here());

// ----------------------------------------------------------------------------------------------
// Print: logs a value while a graph runs. Implemented in ops/control_flow/print.cpp.

struct PrintOptions {
  int64_t every = 1;      // print one of this many firings, the first
  int64_t most = -1;      // lines during the node's life in a process; -1: no limit
  int64_t elements = 10;  // number of elements shown
};
// x itself; a reader of the result makes it print a line on the stderr of the process it runs in:
// "loss: node=Print run=7 step=3 type=f32[] values=[0.25]".
Output print(Output x, std::string_view text, PrintOptions options = {},
             Origin at = Origin::here());

}  // namespace troupe

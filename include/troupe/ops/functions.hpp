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
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

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

}  // namespace troupe

// Functions of a graph: defined once, called as often as wanted, by each other and by themselves.
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
// A function that does not call itself, not by way of others either, is copied to where it is
// called: each call has nodes of its own, in the scope, frame and on the device of the call, with
// gradients. What it reads of its surroundings, parameters above all, all calls share.
//
// Its body may push gradients and write parameters (troupe/ops/parameters.hpp): each call does. All
// writes of a step count. Of pushes one counts for each parameter, replica and step, so a step in
// which two calls would push to one parameter is refused when it is prepared, unless they are in
// different branches of one choice: return the gradients, and push the sum of what the calls
// return. In a branch that is not taken nothing is pushed or written, and the step passes without;
// under the synchronous rule the parameter is then not updated in this step, and what other
// replicas push to it fails as `stale`. In a loop, which would do it in each iteration, such a
// function is not called. A parameter() in a body needs a first value that was made outside.
//
// A function that does call itself is a Call node, which runs the body on the one device where the
// Call stands, a cpu: wishes for devices in the body count for nothing. Its activations are on the
// heap, one for each call under way. It has gradients, of any order: a function that computes the
// body again and goes back through it, calling itself where the body did. So going back through n
// calls, one inside the other, computes up to n * n / 2 bodies again, if what they return is needed
// for it.
// Random numbers in it are others in each call, by where the calls stand that lead to it. It pushes
// and writes nothing.
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
  // Calls of a function that calls itself that may be under way one inside the other, from 1 to
  // 10^9; one more ends the step. Each holds what its body needs until it returns: some kilobytes,
  // and tensors.
  int64_t depth_max = 100'000;
};

// A function of a graph, by number: copies are the same one. The graph owns it.
class Function {
 public:
  Function() = default;  // none
  // The node that stands for it. Requires: it opens a function. find_function() gives these.
  explicit Function(Output node) : node_(node) {}

  bool defined() const;             // has a body
  const std::string& name() const;  // with its scopes: "tower0/fib"
  const Output& node() const { return node_; }

  // Builds the body: `body` is called once, here. What it reads of the surroundings must be there
  // wherever the function is called. A node without outputs that it returns gives a bool scalar:
  // that it has run. Throws: Error(invalid_argument) naming the function and the caller's line for
  // an empty Function, if it has a body already, if `body` is empty, and if what it returns is
  // nothing, undefined, of another graph or not what was declared; and what `body` throws.
  void define(const FunctionBody& body, Origin at = Origin::here());

  // What the body makes of these. May be called before define(), in bodies of functions alone.
  // Throws: Error(invalid_argument) naming the function, the caller's line, what was given and what
  // is wanted, for arguments that do not fit; for an empty Function and one of another graph; and
  // for a call before define() without declared results.
  std::vector<Output> operator()(const std::vector<Output>& arguments,
                                 Origin at = Origin::here()) const;

 private:
  Output node_;
};

// A function that will be defined: its name, within the open scopes, and the types of what it takes
// and gives, -1 for sizes that differ from call to call. `results` may be empty if nobody calls it
// before it is defined; then the body says them. A function that calls itself needs an argument.
// Throws: Error(invalid_argument) for no name, one that cannot be a node's, a type without a dtype,
// and a depth_max that is not in [1, 10^9].
Function declare_function(Graph& graph, std::string_view name, std::vector<TensorType> arguments,
                          std::vector<TensorType> results, const FunctionOptions& options = {},
                          Origin at = Origin::here());

// One that does not call itself, declared and defined. Throws: as the two do.
Function define_function(Graph& graph, std::string_view name, std::vector<TensorType> arguments,
                         const FunctionBody& body, const FunctionOptions& options = {},
                         Origin at = Origin::here());

// The function of that name, for one in a graph that was read from text. Throws:
// Error(invalid_argument) if there is none, with those there are.
Function find_function(Graph& graph, std::string_view name, Origin at = Origin::here());

}  // namespace troupe

// The parts of a function of a graph, and how its body is copied: for the functions of
// troupe/ops/control_flow.hpp. A function that a program defines is a pattern, which never runs: it
// is copied to each of its calls or, if it calls itself, once for each device and replica to a
// function that runs. A function that runs reads nothing from outside: the values that the pattern
// captured are additional arguments, after the declared ones. Implemented in
// gradients/function_copy.cpp, function_call.cpp and function_gradient.cpp.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/control_flow/call_path.hpp"
#include "troupe/op.hpp"

namespace troupe {

// Error(invalid_argument) with the function, the caller's line, and `what` was done there:
// "called".
template <class... Parts>
Error bad_function(const char* what, std::string_view name, Origin at, const Parts&... parts) {
  return Error(Errc::invalid_argument, "function ", name, ", ", what, " at ", at.file, ":", at.line,
               ": ", detail::concat(parts...));
}

// ---- function_copy.cpp

// The node that opens the innermost function around `frame`; -1: none.
int32_t function_around(const Graph& graph, int32_t frame);
bool is_pattern(const Node& opener);
// The node called `name` if it opens a function, else nullptr.
const Node* opener_called(const Graph& graph, const std::string& name);
// The types in the opener's attribute "arguments" or "results".
std::vector<TensorType> types_in(const Node& opener, const char* attribute);
// The Return of the body that `opener` opens; nullptr: it has no body yet.
const Node* return_of(const Graph& graph, int32_t opener);
// The nodes of that body, by id, without those of functions defined in it.
std::vector<int32_t> body_of(const Graph& graph, int32_t opener);
std::string last_part(const std::string& name);  // "fib" of "tower0/fib"
// True if it gives other values in each iteration and call, so that its last inputs are a path.
bool takes_path(const Node& node);

using Outside = std::function<Output(Output)>;  // maps a value from outside to its substitute

struct CopyRules {
  Outside outside;
  // The results for a Call, instead of a copy of it. `resolve` maps values of the body to their
  // copies.
  std::function<std::vector<Output>(const Node& call, const std::vector<Output>& inputs,
                                    const Outside& resolve)>
      call = {};
  bool one_device = false;  // all nodes stand where the open scope says
  bool same_draws = false;  // draws the same random numbers as the body
};

// Copies the body to the open frame and scope; returns its results for these arguments.
std::vector<Output> copy_body(Graph& graph, int32_t opener, const std::vector<Output>& arguments,
                              const CopyRules& rules);

// ---- function_call.cpp

// The results of `pattern` for fitting arguments. `outside` maps values that its body reads from
// outside.
std::vector<Output> call_pattern(Graph& graph, const Node& pattern,
                                 const std::vector<Output>& arguments, const Outside& outside,
                                 Origin at);
// Adds a call of a function that runs, or of a pattern from inside a pattern.
std::vector<Output> add_call(Graph& graph, int32_t opener, std::vector<Output> inputs, Origin at);
// Adds Argument nodes of these types to the open frame, numbered from 0.
std::vector<Output> add_arguments(Graph& graph, const std::vector<TensorType>& types);

// ---- function_gradient.cpp

std::vector<Output> call_gradient(const GradientContext& ctx);
// The function that goes back through the running function that `opener` opens.
int32_t gradient_function(Graph& graph, int32_t opener);

}  // namespace troupe

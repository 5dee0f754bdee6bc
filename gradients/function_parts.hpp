// What a function of a graph consists of, and how its body is copied: for the functions of
// troupe/ops/functions.hpp. What a program defines is a pattern, which never runs: it is copied to
// where it is called, or, if it calls itself, once for each device and replica to a function that
// runs. That one reads nothing of its surroundings: what the pattern captured are arguments of it,
// behind those that were declared.
// Implemented in gradients/function_copy.cpp, function_call.cpp and function_gradient.cpp.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/control_flow/call_path.hpp"
#include "troupe/op.hpp"

namespace troupe {

// Error(invalid_argument) with the function, the caller's line, and what was done there: "called".
template <class... Parts>
Error bad_function(const char* what, std::string_view name, Origin at, const Parts&... parts) {
  return Error(Errc::invalid_argument, "function ", name, ", ", what, " at ", at.file, ":", at.line,
               ": ", detail::concat(parts...));
}

// ---- function_copy.cpp

// The node that opens the innermost function around what is in `frame`; -1: none.
int32_t function_around(const Graph& graph, int32_t frame);
bool is_pattern(const Node& opener);
// The node called `name` if it opens a function, else nullptr.
const Node* opener_called(const Graph& graph, const std::string& name);
// The types in its attribute "arguments" or "results".
std::vector<TensorType> types_in(const Node& opener, const char* attribute);
// The Return of the body that `opener` opens; nullptr: it has no body yet.
const Node* return_of(const Graph& graph, int32_t opener);
// The nodes of that body, by id; those of functions defined in it are not of it.
std::vector<int32_t> body_of(const Graph& graph, int32_t opener);
std::string last_part(const std::string& name);  // "fib" of "tower0/fib"
// Whether it gives other values in each iteration and call, so that its last inputs are a path.
bool takes_path(const Node& node);

using Outside = std::function<Output(Output)>;  // what stands for a value of the surroundings

struct CopyRules {
  Outside outside;
  // What a Call gives, instead of a copy of it. `resolve` gives the copies of what was there.
  std::function<std::vector<Output>(const Node& call, const std::vector<Output>& inputs,
                                    const Outside& resolve)>
      call = {};
  bool one_device = false;  // the open scope says where all nodes stand
  bool same_draws = false;  // random numbers are those of the body
};

// Copies the body to the open frame and scope: what it gives for these arguments.
std::vector<Output> copy_body(Graph& graph, int32_t opener, const std::vector<Output>& arguments,
                              const CopyRules& rules);

// ---- function_call.cpp

// What `pattern` makes of the arguments, which fit. `outside`: of what its body reads around it.
std::vector<Output> call_pattern(Graph& graph, const Node& pattern,
                                 const std::vector<Output>& arguments, const Outside& outside,
                                 Origin at);
// A call of a function that runs, or of a pattern from inside of one.
std::vector<Output> add_call(Graph& graph, int32_t opener, std::vector<Output> inputs, Origin at);
// Argument nodes of these types in the open frame, by number.
std::vector<Output> add_arguments(Graph& graph, const std::vector<TensorType>& types);

// ---- function_gradient.cpp

std::vector<Output> call_gradient(const GradientContext& ctx);
// The function that goes back through the one that `opener` opens, which runs.
int32_t gradient_function(Graph& graph, int32_t opener);

}  // namespace troupe

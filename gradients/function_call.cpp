// Calls of functions (gradients/function_parts.hpp). A pattern that leads back to itself becomes a
// set of functions that run, which are copies of all the patterns that it calls. Each copy has
// additional arguments: the values that its pattern reads from outside, and those that the patterns
// it calls read (lambda lifting; Johnsson 1985).
#include <algorithm>
#include <map>
#include <set>

#include "gradients/function_parts.hpp"
#include "graph/frames.hpp"
#include "graph/op.hpp"
#include "ops/state/parameter_write.hpp"
#include "ops/elementwise/type_list.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/control_flow.hpp"

namespace troupe {
namespace {

// The pattern that a Call node names; nullptr for a call of a function that runs.
const Node* pattern_called_by(const Graph& graph, const Node& node) {
  if (node.op->control != ControlKind::call) return nullptr;
  const Node* opener = opener_called(graph, node.attr<std::string>("function"));
  return opener && is_pattern(*opener) ? opener : nullptr;
}

std::set<int32_t> patterns_called_in(const Graph& graph, int32_t opener) {
  std::set<int32_t> called;
  for (int32_t id : body_of(graph, opener))
    if (const Node* pattern = pattern_called_by(graph, graph.node(id))) called.insert(pattern->id);
  return called;
}

// The patterns that the calls in a pattern's body lead to.
struct Reach {
  std::map<int32_t, std::set<int32_t>> called;  // by pattern, for all that have a body
  bool all_defined = true;
  bool itself = false;
};

Reach reach_of(const Graph& graph, int32_t pattern) {
  Reach reach;
  std::vector<int32_t> open = {pattern};
  while (!open.empty()) {
    const int32_t id = open.back();
    open.pop_back();
    if (reach.called.count(id)) continue;
    if (!return_of(graph, id)) {
      reach.all_defined = false;
      return reach;
    }
    const std::set<int32_t>& called = reach.called[id] = patterns_called_in(graph, id);
    reach.itself = reach.itself || called.count(pattern) > 0;
    open.insert(open.end(), called.begin(), called.end());
  }
  return reach;
}

// The patterns whose calls draw random numbers, different in each call.
std::set<int32_t> drawing_patterns(const Graph& graph, const Reach& reach) {
  std::set<int32_t> drawing;
  for (const auto& [pattern, called] : reach.called)
    for (int32_t id : body_of(graph, pattern))
      if (takes_path(graph.node(id))) drawing.insert(pattern);
  for (bool more = true; more;) {
    more = false;
    for (const auto& [pattern, called] : reach.called)
      for (int32_t callee : called)
        if (drawing.count(callee)) more = drawing.insert(pattern).second || more;
  }
  return drawing;
}

// By pattern: the values that it, or a pattern it calls, reads from outside.
using FreeValues = std::map<int32_t, std::set<Output, OutputOrder>>;

FreeValues free_values(const Graph& graph, const Reach& reach) {
  FreeValues free;
  for (const auto& [pattern, called] : reach.called)
    for (int32_t id : body_of(graph, pattern))
      if (const Node& node = graph.node(id);
          node.frame == pattern && node.op->control == ControlKind::capture)
        free[pattern].insert(node.inputs[0]);
  for (bool more = true; more;) {
    more = false;
    for (const auto& [pattern, called] : reach.called)
      for (int32_t callee : called) {
        const std::set<Output, OutputOrder> theirs = free[callee];
        for (const Output& value : theirs)
          if (!encloses(graph, pattern, graph.node(value.node).frame))
            more = free[pattern].insert(value).second || more;
      }
  }
  return free;
}

// Throws if the body does something that a function that runs, with arguments only, cannot do.
void check_runs_alone(const Graph& graph, int32_t pattern, Origin at) {
  const Node& opener = graph.node(pattern);
  for (int32_t id : body_of(graph, pattern)) {
    const Node& node = graph.node(id);
    if (node.op->stateful && node.op->outputs.empty())
      throw bad_function("called", opener.name, at, "it calls itself, and its body has the ",
                         describe(node),
                         ", which counts once a step; do that outside, with what it returns");
    for (int32_t before : node.control_inputs)
      if (!encloses(graph, pattern, graph.node(before).frame) && before != pattern)
        throw bad_function("called", opener.name, at, "it calls itself, and in its body the ",
                           describe(node), " runs after the ", describe(graph.node(before)),
                           ", which is outside; read a value of that instead");
  }
}

// Throws if a body that pushes or writes is copied into a loop.
void check_runs_once(const Graph& graph, const Node& pattern, Origin at) {
  if (!inside_loop(graph)) return;
  for (int32_t id : body_of(graph, pattern.id))
    if (const Node& node = graph.node(id); pushes_gradient(node) || writes_values(node))
      throw bad_function("called", pattern.name, at,
                         "it is called in a loop, and its body has the ", describe(node),
                         ", but parameter ", node.attr<std::string>("parameter"),
                         pushes_gradient(node) ? " is pushed to" : " is written",
                         " once a step; let the function and the loop return the value, and ",
                         pushes_gradient(node) ? "push" : "write", " it then");
}

class Copies {
 public:
  Copies(Graph& graph, const Reach& reach, FreeValues free, Origin at)
      : graph_(graph), free_(std::move(free)), drawing_(drawing_patterns(graph, reach)), at_(at) {
    for (const auto& [pattern, called] : reach.called) patterns_.push_back(pattern);
  }

  // The copy of `wanted` for the open scope. Missing copies are made.
  int32_t of(int32_t wanted) {
    for (int32_t pattern : patterns_)
      if (const int32_t known = find(pattern); known >= 0) copies_[pattern] = known;
    if (const auto known = copies_.find(wanted); known != copies_.end()) return known->second;
    std::vector<int32_t> missing;
    for (int32_t pattern : patterns_)
      if (!copies_.count(pattern)) missing.push_back(pattern);
    for (int32_t pattern : missing) check_runs_alone(graph_, pattern, at_);
    const auto away = open_frame(graph_, wanted);  // the scope's control inputs belong to the call
    const auto outside = open_frame(graph_, -1);
    for (int32_t pattern : missing) copies_[pattern] = open(pattern);
    for (int32_t pattern : missing) fill(pattern);
    return copies_.at(wanted);
  }

 private:
  int32_t find(int32_t pattern) const {
    const std::string& name = graph_.node(pattern).name;
    const std::string device = graph_.device();
    for (size_t id = static_cast<size_t>(pattern) + 1; id < graph_.nodes().size(); ++id) {
      const Node& node = *graph_.nodes()[id];
      if (node.op->control == ControlKind::function && node.attr<std::string>("of") == name &&
          node.device == device && node.replica == graph_.replica() && return_of(graph_, node.id))
        return node.id;
    }
    return -1;
  }

  int32_t open(int32_t pattern) {
    const Node& node = graph_.node(pattern);
    Attrs attrs = node.attrs;
    std::vector<TensorType> arguments = types_in(node, "arguments");
    for (const Output& value : free_[pattern]) arguments.push_back({value.dtype(), value.shape()});
    if (drawing_.count(pattern)) {
      attrs["path"] = static_cast<int64_t>(arguments.size());
      arguments.push_back({DType::i64, Shape{}});
    }
    attrs["arguments"] = text_of(arguments);
    std::vector<TensorType> results;
    for (const Output& value : return_of(graph_, pattern)->inputs)
      results.push_back({value.dtype(), value.shape()});
    if (node.attr<std::string>("results").empty()) attrs["results"] = text_of(results);
    attrs["of"] = node.name;
    const auto like = graph_.scope({.origin = Origin{node.file.c_str(), node.line}});
    return graph_.add({.op = "Function", .attrs = std::move(attrs), .name = last_part(node.name)})
        .node;
  }

  void fill(int32_t pattern) {
    const Node& copy = graph_.node(copies_.at(pattern));
    const auto scope = graph_.scope({.name = last_part(copy.name), .colocate_with = copy.name});
    const auto frame = open_frame(graph_, copy.id);
    const std::vector<Output> arguments = add_arguments(graph_, types_in(copy, "arguments"));
    const std::set<Output, OutputOrder>& free = free_[pattern];
    const size_t declared = arguments.size() - free.size() - drawing_.count(pattern);
    CopyRules rules;
    rules.one_device = true;
    rules.outside = [&](Output value) {
      const auto lifted = free.find(value);
      if (lifted == free.end())
        throw bad_function("called", graph_.node(pattern).name, at_,
                           "in its body the function reads ", value.name(),
                           " of another function that is around it; make that an "
                           "argument");
      return arguments[declared + static_cast<size_t>(std::distance(free.begin(), lifted))];
    };
    rules.call = [&](const Node& call, std::vector<Output> inputs, const Outside& resolve) {
      return again(call, std::move(inputs), resolve);
    };
    const std::vector<Output> results = copy_body(graph_, pattern, arguments, rules);
    graph_.add({.op = "Return", .inputs = results});
  }

  std::vector<Output> again(const Node& call, std::vector<Output> inputs, const Outside& resolve);

  Graph& graph_;
  FreeValues free_;
  const std::set<int32_t> drawing_;
  const Origin at_;
  std::vector<int32_t> patterns_;
  std::map<int32_t, int32_t> copies_;  // by pattern
};

// The counterpart for the open scope of the running function that `opener` opens.
int32_t counterpart(Graph& graph, const Node& opener, Origin at) {
  const auto named = [&](const char* attribute) -> const Node& {
    const Node* node = opener_called(graph, opener.attr<std::string>(attribute));
    if (!node)
      throw Error(Errc::invalid_argument, describe(opener), ": its attribute ", attribute,
                  " names no function");
    return *node;
  };
  if (!opener.attr<std::string>("gradient_of").empty())
    return gradient_function(graph, counterpart(graph, named("gradient_of"), at));
  const Node& pattern = named("of");
  const Reach reach = reach_of(graph, pattern.id);
  return Copies(graph, reach, free_values(graph, reach), at).of(pattern.id);
}

const Node& callee_of(const Graph& graph, const Node& call) {
  const Node* opener = opener_called(graph, call.attr<std::string>("function"));
  if (!opener)
    throw Error(Errc::invalid_argument, describe(call), ": there is no function ",
                call.attr<std::string>("function"));
  return *opener;
}

std::vector<Output> Copies::again(const Node& call, std::vector<Output> inputs,
                                  const Outside& resolve) {
  const Node& callee = callee_of(graph_, call);
  const auto copied = copies_.find(callee.id);
  if (copied == copies_.end())
    return add_call(graph_, counterpart(graph_, callee, at_), std::move(inputs), at_);
  for (const Output& value : free_[callee.id]) inputs.push_back(resolve(value));
  if (drawing_.count(callee.id)) inputs.push_back(call_path(graph_, at_));
  return add_call(graph_, copied->second, std::move(inputs), at_);
}

bool inside_pattern(const Graph& graph, int32_t frame) {
  for (int32_t f = function_around(graph, frame); f >= 0;
       f = function_around(graph, graph.node(f).frame))
    if (is_pattern(graph.node(f))) return true;
  return false;
}

}  // namespace

std::vector<Output> add_arguments(Graph& graph, const std::vector<TensorType>& types) {
  std::vector<Output> arguments;
  for (size_t i = 0; i < types.size(); ++i)
    arguments.push_back(graph.add({.op = "Argument",
                                   .attrs = {{"index", static_cast<int64_t>(i)},
                                             {"dtype", types[i].dtype},
                                             {"shape", types[i].shape}},
                                   .name = detail::concat("argument", i)}));
  return arguments;
}

std::vector<Output> add_call(Graph& graph, int32_t opener, std::vector<Output> inputs, Origin at) {
  const Node& function = graph.node(opener);
  if (inputs.empty())
    throw bad_function("called", function.name, at,
                       "it calls itself, and takes no arguments that could end "
                       "that; give it one");
  if (function.attr<std::string>("results").empty())
    throw bad_function("called", function.name, at,
                       "it is called before it has a body, and its results were not "
                       "declared; give declare_function() their types");
  const auto together = graph.scope(
      {.colocate_with = is_pattern(function) ? std::optional<std::string>() : function.name});
  const Output first = graph.add(
      {.op = "Call",
       .inputs = std::move(inputs),
       .attrs = {{"function", function.name}, {"results", function.attr<std::string>("results")}},
       .name = last_part(function.name)},
      at);
  std::vector<Output> results;
  for (size_t i = 0; i < graph.node(first.node).outputs.size(); ++i)
    results.push_back({&graph, first.node, static_cast<int32_t>(i)});
  return results;
}

std::vector<Output> call_pattern(Graph& graph, const Node& pattern,
                                 const std::vector<Output>& arguments, const Outside& outside,
                                 Origin at) {
  const Reach reach = reach_of(graph, pattern.id);
  if (!reach.all_defined) {
    if (!inside_pattern(graph, current_frame(graph)))
      throw bad_function("called", pattern.name, at,
                         "it, or one that it calls, has no body yet; define() it "
                         "before it is called from outside of functions");
    iteration_path(graph);  // makes the loops around the call count, for its random numbers
    return add_call(graph, pattern.id, arguments, at);
  }
  if (reach.itself) {
    const FreeValues free = free_values(graph, reach);
    const int32_t opener = Copies(graph, reach, free, at).of(pattern.id);
    std::vector<Output> inputs = arguments;
    if (const auto mine = free.find(pattern.id); mine != free.end())
      for (const Output& value : mine->second) inputs.push_back(outside(value));
    if (graph.node(opener).attr<int64_t>("path") >= 0) inputs.push_back(call_path(graph, at));
    return add_call(graph, opener, std::move(inputs), at);
  }
  check_runs_once(graph, pattern, at);
  CopyRules rules;
  rules.outside = outside;
  rules.call = [&](const Node& call, const std::vector<Output>& inputs, const Outside& resolve) {
    const Node& callee = callee_of(graph, call);
    if (is_pattern(callee)) return call_pattern(graph, callee, inputs, resolve, at);
    return add_call(graph, counterpart(graph, callee, at), inputs, at);
  };
  const auto scope = graph.scope({.name = last_part(pattern.name)});
  return copy_body(graph, pattern.id, arguments, rules);
}

}  // namespace troupe

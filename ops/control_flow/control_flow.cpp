// cond and switch_case: a frame for each branch, opened by a Branch node, and a Merge for each
// value that the branches return.
#include "troupe/ops/control_flow.hpp"

#include "graph/frames.hpp"
#include "ops/elementwise/composition.hpp"

namespace troupe {
namespace {

struct Built {
  std::vector<Output> values;
  std::vector<bool> effects;  // a node without outputs, for which only its completion matters
};

// The outputs of a branch, inside its frame.
Built build_branch(Graph& graph, int32_t opener, const BranchBuilder& build, size_t number,
                   const char* function, Origin at) {
  const auto scope = graph.scope({.name = detail::concat("branch", number)}, at);
  const auto frame = open_frame(graph, opener, {}, at);
  Built built;
  for (const Output& value : build()) {
    if (!value.defined() || value.graph != &graph)
      throw refused(function, at, "branch ", number, " returns an Output that is ",
                    value.defined() ? "of another graph" : "undefined",
                    "; return results of ops of the graph that the choice is in");
    const bool effect = graph.node(value.node).outputs.empty();
    built.effects.push_back(effect);
    built.values.push_back(effect ? graph.add({.op = "Constant",
                                               .attrs = {{"value", Tensor::scalar(true)}},
                                               .name = "has_run",
                                               .control_inputs = {value.node}},
                                              at)
                                  : captured(graph, value, at));
  }
  return built;
}

void check_alike(const char* function, const Built& first, const Built& other, size_t number,
                 Origin at) {
  if (first.values.size() != other.values.size())
    throw refused(function, at, "branch 0 returns ", first.values.size(), " values, branch ",
                  number, " ", other.values.size(), "; all branches return as many");
  for (size_t i = 0; i < first.values.size(); ++i) {
    const Output &a = first.values[i], &b = other.values[i];
    if (first.effects[i] != other.effects[i] || a.dtype() != b.dtype() ||
        a.shape().ndim() != b.shape().ndim())
      throw refused(function, at, "value ", i, " of branch 0 is ", a.dtype(), a.shape(),
                    ", of branch ", number, " ", b.dtype(), b.shape(),
                    "; all branches return the same dtypes and numbers of dimensions");
  }
}

std::vector<Output> choose(Output index, const std::vector<BranchBuilder>& branches,
                           const std::vector<size_t>& order, const char* function,
                           std::string_view name, Origin at) {
  require_defined(function, at, {index});
  Graph& graph = *index.graph;
  const auto scope = graph.scope({.name = std::string(name)}, at);
  std::vector<Built> built(branches.size());
  for (size_t number : order) {
    if (!branches[number]) throw refused(function, at, "branch ", number, " is an empty function");
    const Output opener = graph.add({.op = "Branch",
                                     .inputs = {index},
                                     .attrs = {{"branch", static_cast<int64_t>(number)},
                                               {"branches", static_cast<int64_t>(branches.size())}},
                                     .name = detail::concat("branch", number)},
                                    at);
    built[number] = build_branch(graph, opener.node, branches[number], number, function, at);
  }
  for (size_t number = 1; number < built.size(); ++number)
    check_alike(function, built[0], built[number], number, at);
  std::vector<Output> results;
  for (size_t i = 0; i < built[0].values.size(); ++i) {
    std::vector<Output> values;
    for (const Built& branch : built) values.push_back(branch.values[i]);
    results.push_back(graph.add({.op = "Merge", .inputs = std::move(values)}, at));
  }
  return results;
}

}  // namespace

std::vector<Output> cond(Output predicate, const BranchBuilder& then,
                         const BranchBuilder& otherwise, std::string_view name, Origin at) {
  require_defined("cond", at, {predicate});
  if (predicate.dtype() != DType::boolean || predicate.shape().ndim() != 0)
    throw refused("cond", at, "wants a bool scalar as its predicate, got ", predicate.dtype(),
                  predicate.shape(), "; compare, and reduce_all or reduce_any it");
  return choose(predicate, {otherwise, then}, {1, 0}, "cond", name, at);
}

Output cond(Output predicate, const std::function<Output()>& then,
            const std::function<Output()>& otherwise, std::string_view name, Origin at) {
  const auto one = [](const std::function<Output()>& build) -> BranchBuilder {
    if (!build) return nullptr;
    return [&build] { return std::vector<Output>{build()}; };
  };
  return cond(predicate, one(then), one(otherwise), name, at)[0];
}

std::vector<Output> switch_case(Output index, const std::vector<BranchBuilder>& branches,
                                std::string_view name, Origin at) {
  require_defined("switch_case", at, {index});
  if ((index.dtype() != DType::i32 && index.dtype() != DType::i64) || index.shape().ndim() != 0)
    throw refused("switch_case", at, "wants an i32 or i64 scalar as its index, got ", index.dtype(),
                  index.shape(), "; cast or reduce it");
  if (branches.empty()) throw refused("switch_case", at, "wants at least one branch");
  std::vector<size_t> order(branches.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  return choose(index, branches, order, "switch_case", name, at);
}

}  // namespace troupe

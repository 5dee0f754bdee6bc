// minimize(): from a loss to a node that trains one step, and its two halves. They call
// gradients(), push_gradient() or push_row_gradient(), and group().
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "gradients/row_gradient.hpp"
#include "graph/prune.hpp"
#include "graph/base/name_pattern.hpp"
#include "graph/base/refuse.hpp"
#include "graph/base/words.hpp"
#include "troupe/op.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/parameters.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {
namespace {

bool is_parameter(const Node& node) { return node.op->name == "Parameter"; }

// The unit of a push: all nodes that read this parameter for this replica.
using Reader = std::pair<std::string, int64_t>;
Reader reader(const Node& node) {
  return {node.attr<std::string>("parameter"), node.attr<int64_t>("replica")};
}

void require_loss(Output loss, Origin at) {
  if (!loss.defined())
    throw refuse("minimize", at, "the loss is an undefined Output; pass the result of an op");
  if (loss.shape().ndim() != 0 || !is_wide_float(loss.dtype()))
    throw refuse("minimize", at, "wants a scalar loss of f32 or f64, got ",
                 TensorType{loss.dtype(), loss.shape()}, " from the ",
                 describe(loss.graph->node(loss.node)),
                 is_half(loss.dtype()) ? "; in mixed precision the loss belongs into its scope, or "
                                         "cast() it to f32"
                                       : "; reduce_mean() makes one number of many");
}

std::string joined(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

// The floating Parameter nodes that a gradient of `loss` may reach, in the order in which they were
// made.
std::vector<Output> reached_parameters(Output loss) {
  Graph& graph = *loss.graph;
  std::set<int32_t> seen = {loss.node};
  std::vector<int32_t> open = {loss.node};
  while (!open.empty()) {
    const Node& node = graph.node(open.back());
    open.pop_back();
    for (const Output& target : gradient_targets(graph, node))
      if (seen.insert(target.node).second) open.push_back(target.node);
  }
  std::vector<Output> found;
  for (int32_t id : seen)
    if (is_parameter(graph.node(id)) && is_wide_float(graph.node(id).outputs[0].dtype))
      found.push_back({&graph, id, 0});
  return found;
}

void require_parameters(const std::vector<Output>& parameters, Output loss, Origin at) {
  if (parameters.empty())
    throw refuse("minimize", at,
                 "the list of parameters is empty, so nothing would be trained; leave the argument "
                 "out to train all that the loss depends on");
  for (const Output& parameter : parameters) {
    if (!parameter.defined() || parameter.graph != loss.graph)
      throw refuse("minimize", at,
                   "a parameter is undefined or comes from another graph than the loss");
    const Node& node = loss.graph->node(parameter.node);
    if (!is_parameter(node))
      throw refuse("minimize", at, "the ", describe(node),
                   " is not a parameter; pass what parameter() returned");
  }
}

// The parameters of the loss that match a pattern, or that match none.
std::vector<Output> chosen(const char* function, Output loss,
                           const std::vector<std::string>& patterns, bool matching, Origin at) {
  require_loss(loss, at);
  std::vector<Output> out;
  std::set<std::string> names;
  std::vector<bool> used(patterns.size());
  for (const Output& parameter : reached_parameters(loss)) {
    const auto& name = loss.graph->node(parameter.node).attr<std::string>("parameter");
    names.insert(name);
    bool matched = false;
    for (size_t i = 0; i < patterns.size(); ++i)
      if (matches_name(patterns[i], name)) matched = used[i] = true;
    if (matched == matching) out.push_back(parameter);
  }
  for (size_t i = 0; i < patterns.size(); ++i)
    if (!used[i])
      throw refuse(function, at, "no parameter of the loss is called \"", patterns[i], "\"",
                   did_you_mean(patterns[i], names), "; there are ", joined(names));
  if (out.empty())
    throw refuse(function, at, "no parameter is left of ", joined(names),
                 "; give patterns of those to ", matching ? "train" : "leave out");
  return out;
}

std::vector<ParameterGradient> sum_by_reader(const std::vector<Output>& parameters,
                                             const std::vector<Output>& gradients, Origin at) {
  std::vector<ParameterGradient> updates;
  std::map<Reader, size_t> places;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Node& node = parameters[i].graph->node(parameters[i].node);
    const auto [place, is_new] = places.emplace(reader(node), updates.size());
    if (is_new) updates.push_back({parameters[i], {}, {}});
    ParameterGradient& update = updates[place->second];
    update.reads.push_back(parameters[i].node);
    if (!gradients[i].defined()) continue;
    update.gradient =
        update.gradient.defined() ? add(update.gradient, gradients[i], at) : gradients[i];
  }
  return updates;
}

}  // namespace

std::vector<Output> parameters_named(Output loss, const std::vector<std::string>& patterns,
                                     Origin at) {
  return chosen("parameters_named", loss, patterns, true, at);
}

std::vector<Output> parameters_except(Output loss, const std::vector<std::string>& patterns,
                                      Origin at) {
  return chosen("parameters_except", loss, patterns, false, at);
}

std::vector<ParameterGradient> parameter_gradients(Output loss, const TrainedParameters& trained,
                                                   Origin at) {
  require_loss(loss, at);
  const bool all = !trained.list();
  const std::vector<Output> parameters = all ? reached_parameters(loss) : *trained.list();
  if (!all) require_parameters(parameters, loss, at);
  Graph& graph = *loss.graph;
  const auto scope = graph.scope({.name = "minimize"});
  const auto slopes =
      parameters.empty() ? std::vector<Output>() : gradients({loss}, parameters, {}, at);
  std::vector<ParameterGradient> found = sum_by_reader(parameters, slopes, at);
  for (const ParameterGradient& one : found)
    if (!all && !one.gradient.defined())
      throw refuse("minimize", at, "the loss has no gradient with respect to the ",
                   describe(graph.node(one.parameter.node)), "; does it depend on it?");
  // The loss depends on these, but not smoothly: argmax, stop_gradient.
  std::erase_if(found, [](const ParameterGradient& one) { return !one.gradient.defined(); });
  if (found.empty())
    throw refuse("minimize", at, "the loss, the ", describe(graph.node(loss.node)),
                 ", has no gradient with respect to any parameter; make weights with parameter()");
  return found;
}

Output apply_gradients(const std::vector<ParameterGradient>& gradients, const Optimizer& optimizer,
                       Origin at) {
  if (gradients.empty() || !gradients[0].gradient.defined())
    throw refuse("apply_gradients", at,
                 "got no gradients; pass what parameter_gradients() returned");
  Graph& graph = *gradients[0].gradient.graph;
  const auto scope = graph.scope({.name = "minimize"});
  std::vector<Output> pushes;
  // SGD may update a row several times in a row; optimizers with accumulators need each row once.
  const auto rows_for = optimizer.kind == "sgd" ? gathered_rows_of : rows_of;
  for (const ParameterGradient& one : gradients)
    if (const auto rows = rows_for(one.gradient, one.parameter, at))
      pushes.push_back(push_row_gradient(one.parameter, *rows, optimizer, one.reads, at));
    else
      pushes.push_back(push_gradient(one.parameter, one.gradient, optimizer, one.reads, at));
  return group(graph, pushes, "update", at);
}

Output minimize(Output loss, const Optimizer& optimizer, const TrainedParameters& parameters,
                Origin at) {
  return apply_gradients(parameter_gradients(loss, parameters, at), optimizer, at);
}

}  // namespace troupe

// The moving average of a parameter, as a parameter whose gradient is its distance from the
// averaged one: SGD with rate 1 - decay then makes a - (1 - decay) * (a - w), which is the average.
// Shards count it once, checkpoints hold it, and it is resumed like any parameter.
#include "graph/base/refuse.hpp"
#include "graph/frames.hpp"
#include "graph/optimizer.hpp"
#include "troupe/op.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {
namespace {

constexpr const char* kAverage = "/average";

bool reads(const Node& node, const std::string& parameter, int64_t replica) {
  return node.op->name == "Parameter" && node.attr<std::string>("parameter") == parameter &&
         node.attr<int64_t>("replica") == replica;
}

// The push that updates the parameter's average already, in the open frame; nullptr: there is none.
const Node* push_of_average(const Graph& graph, const Node& parameter) {
  const auto& name = parameter.attr<std::string>("parameter");
  const int64_t replica = parameter.attr<int64_t>("replica");
  for (const auto& node : graph.nodes()) {
    if (node->op->name != "PushGradient" || node->frame != current_frame(graph)) continue;
    const Node& gradient = graph.node(node->inputs[0].node);
    if (gradient.op->name == "Subtract" &&
        reads(graph.node(gradient.inputs[0].node), name + kAverage, replica) &&
        reads(graph.node(gradient.inputs[1].node), name, replica))
      return node.get();
  }
  return nullptr;
}

}  // namespace

MovingAverage moving_average(Output parameter, double decay, Origin at) {
  if (!parameter.defined())
    throw refuse("moving_average", at,
                 "the parameter is an undefined Output; pass what parameter() returned");
  Graph& graph = *parameter.graph;
  const Node& node = graph.node(parameter.node);
  if (node.op->name != "Parameter" || !is_wide_float(parameter.dtype()))
    throw refuse("moving_average", at, "wants a parameter of f32 or f64, got the ", describe(node));
  if (!node.attr<std::string>("touched_rows").empty())
    throw refuse("moving_average", at, "the ", describe(node),
                 " is a table whose rows are made on first touch, and an average would be of all "
                 "its rows; average the other parameters");
  if (!(decay >= 0 && decay < 1))
    throw refuse("moving_average", at, "wants a decay in [0, 1), got ", decay);
  // At the parameter: on its device, for its replica.
  const auto place = graph.scope({.device = ""});
  const auto with = graph.scope({.device = node.device, .replica = node.attr<int64_t>("replica")});
  const Output value = troupe::parameter(node.attr<std::string>("parameter") + kAverage,
                                         graph.output(node.attr<std::string>("initial")), at);
  const Optimizer optimizer = sgd(1 - decay);
  const Node* const known = push_of_average(graph, node);
  if (!known)
    return {value, push_gradient(value, subtract(value, parameter, at), optimizer, {}, at)};
  const auto& settings = known->attr<std::string>("optimizer");
  if (settings != describe(optimizer))
    throw refuse("moving_average", at, "parameter ", node.attr<std::string>("parameter"),
                 " has an average of decay ", 1 - optimizer_from_text(settings).learning_rate,
                 ", made at ", known->file, ":", known->line, ", got decay ", decay,
                 "; a parameter has one average, so take that one, or its decay");
  return {value, {&graph, known->id, 0}};
}

}  // namespace troupe

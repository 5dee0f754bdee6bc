// The moving average of a parameter, as a parameter whose gradient is its distance from the other:
// SGD with rate 1 - decay then makes a - (1 - decay) * (a - w), which is the average. Shards count
// it once, checkpoints hold it, and it is resumed like any parameter.
#include "graph/refuse.hpp"
#include "troupe/op.hpp"
#include "troupe/ops.hpp"
#include "troupe/train.hpp"

namespace troupe {

MovingAverage moving_average(Output parameter, double decay, Origin at) {
  if (!parameter.defined())
    throw refuse("moving_average", at,
                 "the parameter is an undefined Output; pass what parameter() returned");
  Graph& graph = *parameter.graph;
  const Node& node = graph.node(parameter.node);
  if (node.op->name != "Parameter" || !is_wide_float(parameter.dtype()))
    throw refuse("moving_average", at, "wants a parameter of f32 or f64, got the ", describe(node));
  if (!(decay >= 0 && decay < 1))
    throw refuse("moving_average", at, "wants a decay in [0, 1), got ", decay);
  // With the parameter: on its device, for its slot.
  const auto place = graph.scope({.device = ""});
  const auto with = graph.scope({.device = node.device, .slot = node.attr<int64_t>("slot")});
  const Output value = troupe::parameter(node.attr<std::string>("parameter") + "/average",
                                         graph.output(node.attr<std::string>("initial")), at);
  return {value, push_gradient(value, subtract(value, parameter, at), sgd(1 - decay), {}, at)};
}

}  // namespace troupe

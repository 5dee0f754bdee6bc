// accumulate_gradients(): the gradients of a batch in parts. The parts are ordinary graphs side by
// side; control edges order them one after the other, and gradients are added up as they come.
#include <algorithm>

#include "graph/base/refuse.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {
namespace {

constexpr const char* kCaller = "accumulate_gradients";

void check(const std::vector<Output>& inputs, int64_t parts, Origin at) {
  if (parts < 1) throw refuse(kCaller, at, "wants at least one part, got ", parts);
  if (inputs.empty()) throw refuse(kCaller, at, "got no inputs to cut into parts");
  for (const Output& input : inputs) {
    if (!input.defined())
      throw refuse(kCaller, at, "an input is an undefined Output; pass the result of an op");
    if (input.shape().ndim() == 0)
      throw refuse(kCaller, at, "cuts along the first dimension; ", input.name(), " has none");
  }
}

// x, after `nodes` have run.
Output after(Output x, const std::vector<int32_t>& nodes, Origin at) {
  if (nodes.empty()) return x;
  return x.graph->add({.op = "Identity", .inputs = {x}, .control_inputs = nodes}, at);
}

// Adds the next part's gradients; parameters and their order are the same.
void add_up(std::vector<ParameterGradient>& sum, const std::vector<ParameterGradient>& next,
            Origin at) {
  const auto same = [](const ParameterGradient& a, const ParameterGradient& b) {
    return a.parameter.is(b.parameter);
  };
  if (!std::equal(sum.begin(), sum.end(), next.begin(), next.end(), same))
    throw refuse(kCaller, at, "its function made a loss of other parameters for another part");
  for (size_t i = 0; i < sum.size(); ++i) {
    sum[i].gradient = add(sum[i].gradient, next[i].gradient, at);
    for (int32_t read : next[i].reads)
      if (std::find(sum[i].reads.begin(), sum[i].reads.end(), read) == sum[i].reads.end())
        sum[i].reads.push_back(read);
  }
}

// A part's share of the mean. It scales the loss, not the gradients, which stay plain sums: so
// gradients by rows of an embedding stay gradients by rows.
Output share(Output loss, int64_t parts, Origin at) {
  if (!loss.defined()) throw refuse(kCaller, at, "its function returned an undefined Output");
  if (parts == 1) return loss;
  const double factor = 1 / static_cast<double>(parts);
  return multiply(loss, fill(*loss.graph, {}, factor, loss.dtype(), "", at), at);
}

}  // namespace

AccumulatedGradients accumulate_gradients(
    const std::vector<Output>& inputs, int64_t parts,
    const std::function<Output(const std::vector<Output>& part)>& loss_of,
    const TrainedParameters& parameters, Origin at) {
  check(inputs, parts, at);
  Graph& graph = *inputs[0].graph;
  std::vector<std::vector<Output>> cut;  // by input
  for (const Output& input : inputs) cut.push_back(split(input, parts, 0, at));
  AccumulatedGradients out;
  std::vector<int32_t> before;  // nodes that the next part waits for
  for (int64_t p = 0; p < parts; ++p) {
    const auto scope = graph.scope({.name = detail::concat("part", p)});
    std::vector<Output> part;
    for (const auto& pieces : cut)
      part.push_back(after(pieces[static_cast<size_t>(p)], before, at));
    const Output loss = share(loss_of(part), parts, at);
    const auto gradients = parameter_gradients(loss, parameters, at);
    if (p == 0) {
      out = {loss, gradients};
    } else {
      out.loss = add(out.loss, loss, at);
      add_up(out.gradients, gradients, at);
    }
    before.clear();
    for (const ParameterGradient& one : out.gradients) before.push_back(one.gradient.node);
  }
  return out;
}

}  // namespace troupe

// memory [--model M]: what a training step holds at most beyond what stays between steps, against
// the sum of all tensors that its nodes make, as if none of their memory were used twice.
#include <algorithm>
#include <set>

#include "actors/session_state.hpp"
#include "bench/bench.hpp"
#include "bench/models.hpp"
#include "placement/call_graph.hpp"
#include "troupe/session.hpp"

namespace troupe::bench {
namespace {

constexpr double kMiB = 1 << 20;

// Of the graph that runs, as the passes leave it. What only shows its input in another shape takes
// nothing, nor does a constant or a feed.
double naive_bytes(const CallGraph& call) {
  static const std::set<std::string> views = {"Constant",    "ExpandDims",  "Identity",
                                              "Parameter",   "Placeholder", "Reshape",
                                              "ReshapeLike", "Squeeze",     "StopGradient"};
  double bytes = 0;
  const std::vector<NodeRoles> roles = roles_of(call);
  for (const auto& node : call.graph->nodes()) {
    if (!roles[static_cast<size_t>(node->id)].runs || views.count(node->op->name)) continue;
    for (const TensorType& type : node->outputs)
      bytes += static_cast<double>(type.shape.size() * size_of(type.dtype));
  }
  return bytes;
}

}  // namespace

int memory(const Options& options) {
  const std::string name = options.text("model", "resnet20");
  Graph graph;
  const Model model = make_model(graph, name);
  std::vector<Output> fed;
  for (const auto& [unused, output] : model.fed) fed.push_back(output);
  const CallGraph call = make_call_graph(graph, {model.loss, model.update}, fed, nullptr, true, {});
  const double naive = naive_bytes(call);
  Session session = Session::local(graph, {.threads = 1});
  const Callable step = session.prepare({model.loss, model.update}, fed);
  const auto stats = [&] { return session.state().process->cpu().memory().stats(); };
  const auto before = static_cast<double>(stats().used_bytes);
  for (int i = 0; i < 3; ++i) step(model.feeds);
  const double peak = static_cast<double>(stats().peak_bytes) - before;
  const std::vector<std::pair<std::string, std::string>> config = {{"model", "\"" + name + "\""},
                                                                   {"statistic", "\"maximum\""}};
  report(options, "memory", "naive_mib", naive / kMiB, "MiB", config);
  report(options, "memory", "peak_mib", peak / kMiB, "MiB", config);
  report(options, "memory", "reserved_mib", static_cast<double>(stats().reserved_bytes) / kMiB,
         "MiB", config);
  report(options, "memory", "peak_of_naive", peak / naive, "x", config);
  return 0;
}

}  // namespace troupe::bench

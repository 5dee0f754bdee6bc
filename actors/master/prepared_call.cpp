// Prepares a call: prunes, places, rewrites and cuts it; and checks its feeds.
#include "actors/master/prepared_call.hpp"

#include <algorithm>
#include <set>

#include "graph/op_properties.hpp"
#include "graph/prune.hpp"
#include "graph/task_of.hpp"

namespace troupe {
namespace {

// The replicas that take a training step with the call: those of its nodes with state and no
// output, which run for their effect.
std::vector<int64_t> replicas_of(const Graph& graph, const std::vector<int32_t>& nodes) {
  std::set<int64_t> replicas;
  for (int32_t id : nodes) {
    const Node& node = graph.node(id);
    if (!node.op->stateful || !node.op->outputs.empty()) continue;
    if (const auto replica = own_replica(node)) replicas.insert(*replica);
  }
  return {replicas.begin(), replicas.end()};
}

}  // namespace

PreparedCall prepare_call(const Graph& graph, const std::vector<Output>& fetches,
                          const std::vector<Output>& feeds, const PlacementOptions& options,
                          const std::string& client_device, bool passes) {
  PreparedCall call;
  call.asked = prune(graph, fetches, feeds);
  const Placement placement = place(graph, call.asked, options);
  CallGraph made = make_call_graph(graph, fetches, feeds, &placement, passes, {}, &call.absorbed);
  call.nodes = prune(*made.graph, made.fetches, made.feeds);
  call.placement = placement_in(made, call.nodes, placement);
  call.partitions =
      partition(*made.graph, made.fetches, made.feeds, call.placement.devices, client_device);
  call.replicas = replicas_of(*made.graph, call.nodes);
  for (const int32_t id : call.nodes) {
    const OpProperties& properties = properties_of(made.graph->node(id));
    const ParameterUse::Kind use = properties.parameter.kind;
    call.trains |= use == ParameterUse::pushes;
    call.reads |= use == ParameterUse::reads || use == ParameterUse::reads_rows;
    call.draws |= properties.random;
  }
  call.fetches = std::move(made.fetches);
  call.feeds = std::move(made.feeds);
  call.graph = std::move(made.graph);
  return call;
}

std::string device_at(const std::string& named, const Places& places) {
  const auto place = places.find(task_of(named));
  return place == places.end() ? named : place->second + named.substr(place->first.size());
}

bool moves(const PreparedCall& call, const Places& places) {
  if (places.empty() && call.named.empty()) return false;
  const auto& named = call.named.empty() ? call.placement.devices : call.named;
  return std::any_of(named.begin(), named.end(), [&](const auto& node) {
    return call.placement.devices.at(node.first) != device_at(node.second, places);
  });
}

PreparedCall moved_call(const PreparedCall& call, const Places& places,
                        const std::string& client_device) {
  PreparedCall out = call;
  if (out.named.empty()) out.named = out.placement.devices;
  for (const auto& [node, device] : out.named)
    out.placement.devices.at(node) = device_at(device, places);
  out.partitions =
      partition(*out.graph, out.fetches, out.feeds, out.placement.devices, client_device);
  return out;
}

void check_outputs(const Graph& graph, const std::vector<Output>& fetches,
                   const std::vector<Output>& feeds) {
  const auto ours = [&](const Output& o, const char* what, const char* verb) {
    if (!o.defined() || o.graph != &graph)
      throw Error(Errc::invalid_argument, "a ", what, " is not an output of this session's graph; ",
                  verb, " what a function of this graph returned");
  };
  for (const Output& o : fetches) ours(o, "fetch", "fetch");
  for (const Output& o : feeds) {
    ours(o, "feed", "feed");
    if (graph.node(o.node).outputs.empty())
      throw Error(Errc::invalid_argument, troupe::describe(graph.node(o.node)),
                  " has no output that could be fed; feed one of the nodes it reads");
  }
}

void check_feeds(const PreparedCall& call, const std::vector<Tensor>& feeds) {
  if (feeds.size() != call.feeds.size())
    throw Error(Errc::invalid_argument, "the call wants ", call.feeds.size(), " feeds, got ",
                feeds.size(), "; give one tensor for each, in the order of prepare()");
  for (size_t i = 0; i < feeds.size(); ++i) {
    const Output& o = call.feeds[i];
    const Node& node = call.graph->node(o.node);
    if (!feeds[i].defined() || feeds[i].dtype() != o.dtype() ||
        !o.shape().accepts(feeds[i].shape()))
      throw Error(
          Errc::invalid_argument, "feed ", node.name, ":", o.index, " (made at ", node.file, ":",
          node.line, ") wants ", o.dtype(), o.shape(), ", got ",
          feeds[i].defined() ? detail::concat(feeds[i].dtype(), feeds[i].shape()) : "nothing");
    if (!feeds[i].on_host())
      throw Error(Errc::invalid_argument, "feed ", node.name, ":", o.index,
                  " is not in host memory; feed a host tensor");
  }
}

}  // namespace troupe

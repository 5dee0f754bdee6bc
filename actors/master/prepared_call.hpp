// PreparedCall: a call after pruning, placement and passes, cut into partitions. Its graph is its
// own and never changes: so it can be installed again, on any thread, while the program adds nodes
// to its graph.
// Owner: Calls; runs share it. Thread: any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "placement/call_graph.hpp"
#include "placement/partition.hpp"
#include "placement/placement.hpp"
#include "troupe/graph.hpp"

namespace troupe {

struct PreparedCall {
  int64_t id = 0;
  int64_t version = 0;  // unique in its session; names the output of the passes
  std::shared_ptr<const Graph> graph;
  std::vector<Output> fetches, feeds;  // of `graph`
  std::vector<int64_t> replicas;       // they take a training step with each run
  bool trains = false;                 // it pushes gradients
  bool reads = false;                  // it reads parameters
  bool draws = false;                  // it makes random numbers
  std::vector<int32_t> nodes;          // the nodes that run
  std::vector<int32_t> asked;          // the nodes of the program's graph that it was made of
  Placement placement;
  // The devices by the graph's names, if others stand for some of them (Calls::set_places).
  std::map<int32_t, std::string> named;
  std::vector<Partition> partitions;
  std::vector<Absorbed> absorbed;  // the changes of the passes to nodes of the program's graph
};

// Feeds enter and fetches leave at `client_device`. Throws: Error(invalid_argument) as prune().
PreparedCall prepare_call(const Graph& graph, const std::vector<Output>& fetches,
                          const std::vector<Output>& feeds, const PlacementOptions& options,
                          const std::string& client_device, bool passes);

// The tasks whose devices stand for those of the tasks that a graph names, where they are others.
using Places = std::map<std::string, std::string>;

// The device that stands for a named one.
std::string device_at(const std::string& named, const Places& places);
// True if a node of the call is on another device by these places.
bool moves(const PreparedCall& call, const Places& places);
// The same call, cut anew for these places. Its graph stays, so the passes change no bit.
PreparedCall moved_call(const PreparedCall& call, const Places& places,
                        const std::string& client_device);

// Throws: Error(invalid_argument) for an output of another graph, or a feed that is no value.
void check_outputs(const Graph& graph, const std::vector<Output>& fetches,
                   const std::vector<Output>& feeds);
// Throws: Error(invalid_argument) for feeds that do not fit.
void check_feeds(const PreparedCall& call, const std::vector<Tensor>& feeds);

}  // namespace troupe

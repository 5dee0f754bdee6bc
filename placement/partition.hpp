// Partition: the part of a graph on one device, with the Send and Receive nodes that join it to the
// others. Cutting is deterministic: every process that cuts the same call gets the same partitions,
// node order and edge numbers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

// A tensor, or the news that a node has run, on its way from one device to another. One per (value,
// destination), however many readers it has there.
struct Edge {
  int32_t id = -1;     // counts from 0 over the whole cut
  int32_t node = -1;   // the producer's id in the graph
  int32_t output = 0;  // which of its outputs; 0 for a control edge
  std::string source;  // full device names
  std::string destination;
  DType dtype = DType::none;
  Shape shape;           // -1 where it is not known before the step
  bool control = false;  // carries an empty u8[0]: that the node has run
  friend bool operator==(const Edge&, const Edge&) = default;
};

enum class PartKind : uint8_t {
  op,       // runs graph node `node`
  send,     // input 0 (a control edge: nothing) goes out on `edge`
  receive,  // a source: output 0 is what arrives on `edge`
  feed,     // a source: output 0 is what the client feeds for output `output` of graph node `node`
  fetch,    // input 0 (a node without outputs: nothing) is what the client wants of output `output`
            // of graph node `node`
};
const char* to_string(PartKind kind);

struct PartInput {
  int32_t node = -1;  // index in Partition::nodes, always a smaller one
  int32_t output = 0;
  friend bool operator==(const PartInput&, const PartInput&) = default;
};

struct PartNode {
  PartKind kind = PartKind::op;
  int32_t node = -1;                   // op, feed, fetch: id in the graph
  int32_t output = 0;                  // feed, fetch
  int32_t edge = -1;                   // send, receive
  std::vector<PartInput> inputs = {};  // op: as in the graph
  std::vector<int32_t> controls =
      {};  // indices in Partition::nodes: must have run before; none of them twice
};

struct Partition {
  std::string device;  // full name
  // In firing order (below). Feeds and fetches stand in the client's partition only; fetches stand
  // last, one for each fetch that was asked for, in that order.
  std::vector<PartNode> nodes;
  std::vector<Edge> edges;  // those that leave or arrive here, by id
};

// Cuts what `fetches` need (graph/passes.hpp: prune) along the devices of `device_of`, which names
// one for each needed node. Feeds enter and fetches leave at `client_device`; any output may be
// fed. Partitions come by device name, the client's first (there is one if anything is fed or
// fetched). Throws: Error(invalid_argument) like prune; InternalError for a needed node without a
// device.
std::vector<Partition> partition(const Graph& graph, const std::vector<Output>& fetches,
                                 const std::vector<Output>& feeds,
                                 const std::map<int32_t, std::string>& device_of,
                                 const std::string& client_device);

// The order in which a firing loop with a LIFO ready list runs `nodes` if all sources are there at
// once: result[i] is the index of the node that fires i-th. The loop must make nodes ready from the
// highest number to the lowest (the sources at the start, then the readers of each node), so that
// the lowest fires first; numbered in this order, nodes then fire in the order of their numbers,
// and memory is read in a row. Sends come before other readers, fetches last. Throws: InternalError
// for a cycle.
std::vector<int32_t> firing_order(const std::vector<PartNode>& nodes);

// For people and tests: a line for each node and edge.
std::string to_text(const Graph& graph, const std::vector<Partition>& partitions);

}  // namespace troupe

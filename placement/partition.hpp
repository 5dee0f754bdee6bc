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
  int32_t loop = -1;     // the node that opens the loop in each of whose iterations it carries one
  friend bool operator==(const Edge&, const Edge&) = default;
};

enum class PartKind : uint8_t {
  op,       // runs graph node `node`
  send,     // input 0 (a control edge: nothing) goes out on `edge`
  receive,  // a source: output 0 is what arrives on `edge`
  feed,     // a source: output 0 is what the client feeds for output `output` of graph node `node`
  fetch,    // input 0 (a node without outputs: nothing) is what the client wants of output `output`
            // of graph node `node`
  loop,     // a loop as its surroundings see it: has run when its last iteration has. On the loop's
            // home its outputs are those of graph node `node`; elsewhere it has none
  enter,    // in a loop: output 0 is what the driver brings in (PartLoop::Entering); never fires
  turn,     // in a loop: has run when all else in the iteration has, and begins the next one
  ack,      // in a loop, at home: what arrives on `edge` counts the iterations of another device
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
  int32_t edge = -1;                   // send, receive, ack
  std::vector<PartInput> inputs = {};  // op: as in the graph
  std::vector<int32_t> controls =
      {};             // indices in Partition::nodes: must have run before; none of them twice
  int32_t loop = -1;  // index in Partition::loops: the innermost one that the node is in
  int32_t save = -1;  // of a restore: the index of its save
};

// The part of a loop that is on one device. Its nodes stand in a row, those of loops inside it with
// them, and its `driver`, which is outside, right behind. One device is its home: where the node
// is that has the loop's outputs. The others follow: they hear after each iteration whether there
// is another, and home waits for them, within a bound.
struct PartLoop {
  int32_t opener = -1;  // id in the graph
  int32_t parent = -1;  // index in Partition::loops
  int32_t begin = 0;    // index in Partition::nodes of its first node
  int32_t driver = -1;  // of kind loop
  int32_t turn = -1;    // of kind turn
  int32_t again = -1;   // the node that is dead after the last iteration
  bool home = false;
  int64_t in_flight = 1;  // iterations that home may be ahead of those who follow, and 1
  // A value that is there in all iterations (at home, of a variable: in the first one): which input
  // of the driver it is, and the node that stands for it.
  struct Entering {
    int32_t input = 0;
    int32_t node = -1;
    friend bool operator==(const Entering&, const Entering&) = default;
  };
  std::vector<Entering> captured, variables;
  std::vector<PartInput> next;  // at home, of each variable in the iteration after
  std::vector<int32_t> acks;    // at home: nodes of kind ack, one for each device that follows
};

struct Partition {
  std::string device;  // full name
  // In firing order (below). Feeds and fetches stand in the client's partition only; fetches stand
  // last, one for each fetch that was asked for, in that order.
  std::vector<PartNode> nodes;
  std::vector<Edge> edges;           // those that leave or arrive here, by id
  std::vector<PartLoop> loops = {};  // a loop stands behind the one it is in
  // The bodies of functions that are called here, with all that they call. Each is a partition of
  // its own without edges: its feeds are the arguments that it reads, its fetches the inputs of its
  // Return node, in their order.
  std::vector<Partition> functions = {};
  int32_t function = -1;  // of such a body: the node that opens it
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
//
// Of the readers of a node fires first: the one of the lowest number; or the one from which the way
// to the end is shortest, as from the gradient of a filter, so that the longest way, on which most
// is made, begins when what the others read is no longer kept for them. Those with late[i] fire
// after the others, if it is not empty.
enum class FireFirst : uint8_t { lowest, shortest };
std::vector<int32_t> firing_order(const std::vector<PartNode>& nodes,
                                  FireFirst first = FireFirst::lowest,
                                  const std::vector<bool>& late = {});

// Puts nodes in firing order: those of a loop in a row, right before its driver.
void put_in_firing_order(Partition& partition, FireFirst first = FireFirst::lowest,
                         const std::vector<bool>& late = {});

// For people and tests: a line for each node and edge.
std::string to_text(const Graph& graph, const std::vector<Partition>& partitions);

}  // namespace troupe

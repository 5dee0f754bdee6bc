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

// A tensor, or the message that a node has run, on its way from one device to another. One per
// (value, destination), for all readers there.
struct Edge {
  int32_t id = -1;     // counts from 0 over the whole cut
  int32_t node = -1;   // the producer's id in the graph
  int32_t output = 0;  // index of the output; 0 for a control edge
  std::string source;  // full device names
  std::string destination;
  DType dtype = DType::none;
  Shape shape;           // -1 for sizes unknown before the step
  bool control = false;  // carries an empty u8[0]: that the node has run
  int32_t loop = -1;     // the node that opens the loop in each of whose iterations it carries one
  friend bool operator==(const Edge&, const Edge&) = default;
};

enum class PartKind : uint8_t {
  op,       // runs graph node `node`
  send,     // input 0 (a control edge: nothing) goes out on `edge`
  receive,  // a source: output 0 is the tensor that arrives on `edge`
  feed,     // a source: output 0 is the client's value for output `output` of graph node `node`
  fetch,    // input 0 (a node without outputs: nothing) is returned to the client as output
            // `output` of graph node `node`
  loop,     // a loop as a single node: has run when its last iteration has. On the loop's home its
            // outputs are those of graph node `node`; elsewhere it has none
  enter,    // in a loop: output 0 is an input of the driver (PartLoop::Entering); never fires
  turn,     // in a loop: runs after all other nodes of the iteration, and begins the next
  ack,      // in a loop, at home: each arrival on `edge` counts one iteration of another device
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
      {};             // indices in Partition::nodes of nodes that must run first; no duplicates
  int32_t loop = -1;  // index in Partition::loops: the innermost one around the node
  int32_t save = -1;  // for a restore: the index of its save
};

// The part of a loop that is on one device. Its nodes are contiguous, those of loops inside it
// included, and are followed by its `driver`, which is outside. One device is the loop's home: the
// device of the node that has the loop's outputs. The other devices follow: after each iteration
// home tells them whether there is another, and home may be ahead of them by a bounded number of
// iterations.
struct PartLoop {
  int32_t opener = -1;  // id in the graph
  int32_t parent = -1;  // index in Partition::loops
  int32_t begin = 0;    // index in Partition::nodes of its first node
  int32_t driver = -1;  // of kind loop
  int32_t turn = -1;    // of kind turn
  int32_t again = -1;   // the node that is dead after the last iteration
  bool home = false;
  int64_t in_flight = 1;  // iterations that home may be ahead of the followers, plus 1
  // A value that is available in all iterations (at home, for a variable: in the first one): its
  // input of the driver, and the node that stands for it.
  struct Entering {
    int32_t input = 0;
    int32_t node = -1;
    friend bool operator==(const Entering&, const Entering&) = default;
  };
  std::vector<Entering> captured, variables;
  std::vector<PartInput> next;  // at home, the values of each variable for the next iteration
  std::vector<int32_t> acks;    // at home: nodes of kind ack, one for each device that follows
};

struct Partition {
  std::string device;  // full name
  // In firing order (below). Feeds and fetches are in the client's partition only; fetches come
  // last, one for each requested fetch, in that order.
  std::vector<PartNode> nodes;
  std::vector<Edge> edges;           // edges that leave or arrive here, by id
  std::vector<PartLoop> loops = {};  // a loop comes after the one around it
  // The bodies of functions that are called here, and of those that they call. Each is a partition
  // of its own without edges: its feeds are the arguments that it reads, its fetches the inputs of
  // its Return node, in their order.
  std::vector<Partition> functions = {};
  int32_t function = -1;  // for such a body: the node that opens it
};

// Cuts the nodes that `fetches` need (graph/prune.hpp) along the devices of `device_of`, which
// names one for each needed node. Feeds enter and fetches leave at `client_device`; any output may
// be fed. Partitions are sorted by device name, the client's first (it exists if anything is fed or
// fetched). Throws: Error(invalid_argument) as prune(); InternalError for a needed node without a
// device.
std::vector<Partition> partition(const Graph& graph, const std::vector<Output>& fetches,
                                 const std::vector<Output>& feeds,
                                 const std::map<int32_t, std::string>& device_of,
                                 const std::string& client_device);

// The order in which a firing loop with a LIFO ready list runs `nodes` if all sources are ready at
// once: result[i] is the index of the node that fires i-th. The loop must make nodes ready from the
// highest number to the lowest (the sources at the start, then the readers of each node), so that
// the lowest fires first. Numbered in this order, nodes fire in the order of their numbers and
// memory is read sequentially. Sends come before other readers, fetches last. Throws: InternalError
// for a cycle.
//
// Among the readers of a node, the first to fire is the one of the lowest number; or the one with
// the shortest way to the end, such as the gradient of a filter, so that the longest way, which
// makes most values, begins when the inputs of the other readers are no longer kept. Readers with
// late[i] fire after the others, if `late` is not empty.
enum class FireFirst : uint8_t { lowest, shortest };
std::vector<int32_t> firing_order(const std::vector<PartNode>& nodes,
                                  FireFirst first = FireFirst::lowest,
                                  const std::vector<bool>& late = {});

// Puts nodes in firing order; those of a loop are contiguous, right before its driver.
void put_in_firing_order(Partition& partition, FireFirst first = FireFirst::lowest,
                         const std::vector<bool>& late = {});

// For people and tests: a line for each node and edge.
std::string to_text(const Graph& graph, const std::vector<Partition>& partitions);

}  // namespace troupe

// Program: one partition of a graph on one device, compiled for firing. It is a plain value: tables
// by node number and by slot, without actors, threads or steps. compile() makes it
// (actors/engine/program/compile.hpp); steps read it (actors/engine/step.hpp).
//
// Nodes are numbered in the order in which one thread fires them. A slot is the place of a value in
// a step. A program has one slot for each output of a node. The body of a loop or of a function is
// a program of its own, and the loop or the call is one node of the program around it.
//
// Owner: the executor of the partition. Thread: any thread reads it. Two fields change while steps
// run, and are atomic for that reason: FiringNode::code, when other code takes its place, and
// FiringNode::costly, when a measurement says so.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/engine/program/op_code.hpp"
#include "placement/partition.hpp"
#include "troupe/op.hpp"

namespace troupe {

// No node, no slot, no loop.
inline constexpr uint32_t kNone = ~0u;
// A count of readers that never comes down to zero within a step.
inline constexpr int32_t kUncounted = 1 << 30;

enum class NodeKind : uint8_t {
  plain,   // its kernel runs at once
  async,   // its kernel answers later
  send,    // a value leaves over an edge
  source,  // a value arrives: a feed, a receive
  queued,  // the device launches its kernel
  // Control flow.
  branch,
  merge,
  loop,
  end,  // of an iteration or a call: fires after all other nodes of the body
  save,
  restore,
  call,
};

// The fields of a node that the firing loop reads: one cache line.
struct alignas(64) FiringNode {
  std::atomic<const NodeView*> code{nullptr};  // of OpCode::view; null for a node without a kernel
  uint32_t in[4] = {};  // slots read; past four, in[0] is an offset in Program::Nodes::lists
  uint32_t to[4] = {};  // nodes counted down; past four, to[0] is an offset
  uint32_t out = 0;     // first slot written
  uint32_t n_to = 0;
  uint16_t n_in = 0;
  uint16_t n_out = 0;
  NodeKind kind = NodeKind::plain;
  bool in_place = false;            // may write over input 0 when it is its last reader
  bool leaves = false;              // its outputs come from the memory for values that leave
  std::atomic<bool> costly{false};  // worth a lane of its own

  const NodeView* view() const { return code.load(std::memory_order_acquire); }
};
static_assert(sizeof(FiringNode) == 64);

struct Program {
  // By node.
  struct Nodes {
    std::vector<FiringNode> firing;
    std::vector<uint32_t> lists;  // inputs and readers of nodes that have more than four
    // The node's number in `calls`, or in the loops, sends or saves of its partition; or kNone.
    std::vector<uint32_t> roles;
    std::vector<std::string> names;
    std::vector<OpCodePtr> codes;  // the op actors' own, once they are made
    // The node goes to a lane when all ready costly nodes before that one have settled. Empty if
    // all nodes may go at any time.
    std::vector<uint32_t> earliest;
    std::vector<Memory*> edge_memory;  // where FiringNode::leaves
  };
  // The state of a step that begins.
  struct Initial {
    std::vector<Tensor> values;         // by slot: constants; undefined where a node writes
    std::vector<int32_t> missing;       // by node: how many nodes it waits for
    std::vector<int32_t> uses;          // by slot: how many nodes read it
    std::vector<uint32_t> first_ready;  // nodes, the last one fires first
  };
  struct Receive {
    int32_t id = -1;    // of the edge
    uint32_t node = 0;  // of the loop's body, or of this program
    const Edge* edge = nullptr;
    uint32_t loop = kNone;
    std::string name;  // of the node
  };
  struct Send {
    int32_t edge = -1;
    uint32_t slot = 0;
    bool control = false;
    uint32_t loop = kNone;
  };
  struct Edges {
    std::vector<Receive> receives;  // by id
    std::vector<Send> sends;
    int64_t awaited = 0;  // receives outside of loops
  };
  // The place of the program's feeds and results, by node of the graph and output.
  struct Interface {
    std::map<std::pair<int32_t, int32_t>, uint32_t> slots;
    std::map<std::pair<int32_t, int32_t>, uint32_t> sources;
    std::vector<uint32_t> kept;  // slots of fetched values, which live until the step is released
    std::vector<uint32_t> results;  // slots of what the body of a function gives back
  };
  struct LoopVariables {
    std::vector<std::pair<uint32_t, uint32_t>> initial;  // slot outside -> slot inside
    std::vector<uint32_t> next;                          // slot of the next iteration's value
    std::vector<TensorType> types;
    std::vector<std::string> names;
    std::vector<uint32_t> unsure;  // variables whose next shape only the step shows
    bool direct = false;           // no variable becomes the value of another one
  };
  // A loop: how values come into its body, and how they go from one iteration to the next. Slots
  // and nodes are the body's, but for the driver and where it says "outside".
  struct Loop {
    uint32_t body = 0;    // in `bodies` of the outermost program
    uint32_t driver = 0;  // the loop as its surroundings see it
    uint32_t again = 0;   // dead after the last iteration
    uint32_t end = 0;     // fires last in an iteration
    int32_t opener = -1;  // in the graph
    bool home = false;
    int64_t in_flight = 1;
    std::vector<std::pair<uint32_t, uint32_t>> captured;  // slot outside -> slot inside
    LoopVariables variables;
    std::vector<size_t> receives;  // indices in Edges::receives
    std::vector<uint32_t> acks;    // nodes, one for each device that follows
  };
  // A Call node: the body that it runs, and where its arguments go.
  struct Call {
    uint32_t body = 0;                                     // in `bodies` of the outermost program
    int32_t opener = -1;                                   // of the function, in the graph
    std::vector<std::pair<uint32_t, uint32_t>> arguments;  // input of the node -> slot of the body
    int64_t depth_max = 0;
  };

  Program() = default;
  Program(Program&&) = default;
  Program& operator=(Program&&) = default;

  const uint32_t* inputs_of(const FiringNode& node) const {
    return node.n_in <= 4 ? node.in : nodes.lists.data() + node.in[0];
  }
  const uint32_t* readers_of(const FiringNode& node) const {
    return node.n_to <= 4 ? node.to : nodes.lists.data() + node.to[0];
  }
  uint32_t earliest_of(uint32_t node) const {
    return node < nodes.earliest.size() ? nodes.earliest[node] : 0;
  }
  const Call& call_of(uint32_t node) const { return calls[nodes.roles[node]]; }
  bool is_function() const { return partition.function >= 0; }
  // A step may wait for something from outside, or has no end in sight.
  bool waits() const { return edges.awaited > 0 || has_async || !loops.empty() || !calls.empty(); }
  // The slot of a fetched or fed output; kNone if it is not here.
  uint32_t slot_of(int32_t node, int32_t output) const;
  uint32_t source_slot(int32_t node, int32_t output) const;
  // The index in Edges::receives of the edge of that id; kNone if it does not end here.
  uint32_t receive_of(int32_t edge) const;
  // For error texts: "node fc1/MatMul on /job:...", and why a fetch has no value.
  std::string place_of(uint32_t node) const;
  std::string no_value(uint32_t kept_slot) const;

  std::shared_ptr<const Graph> graph;
  Partition partition;  // without its functions; in the body of a loop, its device only
  Nodes nodes;
  Initial initial;
  Edges edges;              // with those of its loops
  std::vector<Loop> loops;  // of the whole partition, as in Partition::loops
  size_t saves = 0;         // of the whole partition
  std::vector<Call> calls;
  std::vector<Program> bodies;  // of all loops and functions; in the outermost program only
  Interface interface;
  bool many_lanes = false;  // kernels may run side by side, so their times are measured
  bool on_host = false;     // the host may touch the device's memory
  bool has_async = false;   // a node of the partition answers later
};

}  // namespace troupe

// StepState: one run of a Program, be it a whole partition, an iteration of a loop or a call of a
// function. It holds all that the firing loop touches: values, and the counts that say which nodes
// are ready and which values are still read. An iteration and a call are children of the state
// whose loop or Call node has fired.
//
// Owner: the step, or its loops and calls. Thread: the step's owner thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <compare>
#include <cstdint>
#include <memory>
#include <vector>

#include "actors/engine/program/program.hpp"
#include "actors/observe/trace.hpp"
#include "devices/kernel_call.hpp"
#include "devices/memory/pool.hpp"
#include "devices/run_context.hpp"

namespace troupe {

// In StepState::missing: an input of the node is dead.
inline constexpr int32_t kDeadBit = 1 << 30;
// One step in this many, and one iteration, is timed node by node; the second one is the first.
inline constexpr int64_t kSampleEvery = 64;

class LoopStates;
class PartitionExecutor;
struct StepState;

// A node of a program in one of its runs.
struct Firing {
  StepState* state = nullptr;
  uint32_t node = kNone;
  friend auto operator<=>(const Firing&, const Firing&) = default;
};

// Where a state that is an iteration or a call belongs.
struct CallSite {
  Firing firing;               // the loop or the Call node that waits for its end
  uint32_t outermost = kNone;  // the node of the outermost program that it is inside of
  int64_t depth = 0;           // how many calls of functions are around what it runs
};

// The things that all states of a step share: its run and memory, and the kernel that is called.
struct StepContext {
  StepContext(Memory& device_memory, bool on_host);
  // A step begins. `traced`: Tracer::now_ns() if it is traced, else 0.
  void arm(const RunContext& run, int64_t traced);
  Memory& memory() { return cache ? static_cast<Memory&>(*cache) : device_memory; }
  int64_t trace_begin() const { return traced_ns ? Tracer::now_ns() : 0; }

  RunContext info;
  int64_t traced_ns = 0;                        // when the step began, if it is traced
  int64_t armed = 0;                            // how often
  std::atomic<const FiringNode*> now{nullptr};  // the node that fires; any thread reads it
  KernelCall call;
  Memory& device_memory;
  std::unique_ptr<PoolCache> cache;  // null on a device whose memory the host cannot touch
};

struct StepState {
  // `executor`: of `program`. `loops`: of the partition that `program` is a part of.
  StepState(const Program& program, StepContext& context, PartitionExecutor* executor = nullptr,
            LoopStates* loops = nullptr);
  StepState(const StepState&) = delete;

  // Begins a run: two arrays of counts are copied. `observed`: its nodes are timed or traced.
  void arm(bool observed);
  // Drops all values but the constants.
  void clear();

  void make_ready(uint32_t i) {
    if (next != kNone) ready[top++] = next;
    next = i;
  }
  bool has_ready() const { return next != kNone || top != 0; }
  void drop_ready() {
    top = 0;
    next = kNone;
  }
  // Takes the next ready node if it is one that sends something away.
  bool take_send(uint32_t& i);
  bool is_dead(uint32_t i) const { return missing[i] & kDeadBit; }
  const FiringNode& node(uint32_t i) const { return program.nodes.firing[i]; }

  // Returns the bound code: the node's, as it is now. `shared`: the context, which the firing loop
  // has at hand.
  [[gnu::always_inline]] const NodeView& bind(StepContext& shared, const FiringNode& node,
                                              Memory& into) {
    const NodeView& code = *node.view();
    const uint32_t* in = program.inputs_of(node);
    shared.call.bind(code, values.data(), in, node.n_in, &values[node.out], node.n_out, into,
                     shared.info, node.in_place && uses[in[0]] == 1);
    return code;
  }
  // The node has fired, or is dead: values without further readers go, nodes without further
  // missing inputs are ready.
  [[gnu::always_inline]] void settle(uint32_t i, bool dead) {
    const FiringNode& fired = program.nodes.firing[i];
    const uint32_t* in = program.inputs_of(fired);
    for (uint32_t p = 0; p < fired.n_in; ++p)
      if (--uses[in[p]] == 0) drop(in[p]);
    for (uint32_t k = 0; k < fired.n_out; ++k)
      if (uses[fired.out + k] == 0) drop(fired.out + k);  // an output that nobody reads
    const uint32_t* to = program.readers_of(fired);
    for (const uint32_t* end = to + fired.n_to; to < end; ++to) {
      int32_t& count = missing[*to];
      count = (count - 1) | (dead ? kDeadBit : 0);
      if ((count & ~kDeadBit) == 0) make_ready(*to);
    }
  }
  // The same out of line, for all but the firing loop.
  void settle_apart(uint32_t i, bool dead);
  // Empties a slot; the step's cache takes the buffer if it may.
  void drop(uint32_t slot) {
    if (cache)
      cache->drop(values[slot]);
    else
      values[slot].reset();
  }
  // A kernel that failed has written nothing (Op::in_place), so an input that it had taken over
  // comes back. False: the input is lost.
  bool give_back(const FiringNode& node);
  // Where outputs of the node come from: `own`, or the memory for values that leave.
  Memory& memory_of(uint32_t i, const FiringNode& node, Memory& own) const {
    return node.leaves ? *program.nodes.edge_memory[i] : own;
  }
  // The place of a node in the order in which one thread fires those of the whole partition.
  uint32_t order_of(uint32_t i) const { return site.outermost == kNone ? i : site.outermost; }

  const Program& program;
  StepContext& context;
  PoolCache* const cache;  // of the context
  PartitionExecutor* const executor;
  LoopStates* const loops;
  CallSite site;
  std::vector<Tensor> values;    // by slot
  std::vector<int32_t> missing;  // by node: how many nodes it waits for
  std::vector<int32_t> uses;     // by slot: how many nodes have yet to read it
  std::vector<uint32_t> ready;   // a stack of nodes,
  size_t top = 0;                // of this height;
  uint32_t next = kNone;         // and the node above it
  bool observe = false;          // nodes are timed or traced
  bool in_row = false;           // among the states that the step's thread has to go on with
};

}  // namespace troupe

// StepState: the part of a step that the firing loop touches. It holds the step's values, and the
// counts that say which nodes are ready and which values are still read.
//
// Owner: the step. Thread: the step's owner thread; any thread may read `now`.
#pragma once

#include <algorithm>
#include <atomic>
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
// One step in this many is timed node by node; the second one is the first.
inline constexpr int64_t kSampleEvery = 64;

struct StepState {
  StepState(const Program& program, Memory& device_memory);
  ~StepState() { values.clear(); }  // before the cache, which takes their buffers
  StepState(const StepState&) = delete;

  // Begins a step: two arrays of counts are copied. `traced_at`: Tracer::now_ns() if the step is
  // traced, else 0.
  void arm(const RunContext& info, int64_t traced_at);

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

  // Returns the bound code: the node's, as it is now.
  [[gnu::always_inline]] const NodeView& bind(const FiringNode& node, Memory& into) {
    const NodeView& code = *node.view();
    const uint32_t* in = program.inputs_of(node);
    call.bind(code, values.data(), in, node.n_in, &values[node.out], node.n_out, into, info,
              node.in_place && uses[in[0]] == 1);
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
  // Where outputs of the node come from: `own`, or the memory of the edge they leave by.
  Memory& memory_of(uint32_t i, const FiringNode& node, Memory& own) const {
    return node.leaves ? *program.nodes.edge_memory[i] : own;
  }
  Memory& memory() { return cache ? static_cast<Memory&>(*cache) : device_memory; }
  int64_t trace_begin() const { return traced_ns ? Tracer::now_ns() : 0; }

  const Program& program;
  std::vector<Tensor> values;        // by slot
  std::vector<int32_t> missing;      // by node: how many nodes it waits for
  std::vector<int32_t> uses;         // by slot: how many nodes have yet to read it
  std::vector<uint32_t> ready;       // a stack of nodes,
  size_t top = 0;                    // of this height;
  uint32_t next = kNone;             // and the node above it
  std::atomic<uint32_t> now{kNone};  // the node that fires, for reports
  bool observe = false;              // nodes are timed or traced
  int64_t traced_ns = 0;             // when the step began, if it is traced
  int64_t armed = 0;                 // how often
  KernelCall call;
  RunContext info;
  std::unique_ptr<PoolCache> cache;  // null on a device whose memory the host cannot touch
  Memory& device_memory;
};

}  // namespace troupe

// KernelCall: fills in a KernelContext and runs a kernel. The firing loop keeps one per activation;
// tests make their own.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "devices/memory/memory.hpp"
#include "troupe/op.hpp"

namespace troupe {

class Lanes;

// What stays the same over all firings of a node on a device.
struct alignas(64) NodeView {
  // The first line is what a firing reads: output 0 as long as it fits (see Tensor::type_of), the
  // node, the state.
  Tensor like;        // for Tensor::become(); without a dtype where that does not do
  int64_t bytes = 0;  // of output 0
  const Node* node = nullptr;
  const Kernel* kernel = nullptr;
  std::shared_ptr<const KernelState> state;  // what kernel->prepare returned
  struct Out {
    DType dtype;
    bool known;  // shape has no -1: no inference when firing
    Shape shape;
  };
  std::vector<Out> outputs;
  uint64_t label = 0;      // what its outputs' buffers are marked with (devices/held.hpp); 0: not
  Lanes* lanes = nullptr;  // for the kernel's jobs; null: its own thread does them all
  // The view whose kernel fires instead of this one's; null: none. Set by whoever replaces it,
  // while others read it.
  mutable const NodeView* newer = nullptr;

  const NodeView& newest() const {
    const NodeView* now = std::atomic_ref(newer).load(std::memory_order_acquire);
    return now ? *now : *this;
  }
  void replace_by(const NodeView* other) const {
    std::atomic_ref(newer).store(other, std::memory_order_release);
  }

  static NodeView make(const Node& node, const Kernel& kernel);  // calls kernel.prepare
};

// For a kernel that runs another one as a part of itself.
struct Enclosing {
  const KernelContext* kernel = nullptr;
  // What KernelContext::finish() and take() of the inner kernel call. Without `take` its input is
  // whole.
  void (*finish)(const void* context, int64_t begin, int64_t n) = nullptr;
  void (*take)(const void* context, int64_t begin, int64_t n, int64_t unit,
               void (*part)(const void* part_context, const void* x, int64_t at, int64_t count),
               const void* part_context) = nullptr;
  const void* context = nullptr;
};

struct KernelCall {
  KernelContext context;

  // `input_slots[i]` indexes `values`; `outputs` are undefined tensors, node->outputs.size() of
  // them. may_reuse_input0: the op declares `in_place`, and nobody else reads that slot of
  // `values`.
  void bind(const NodeView& view, const Tensor* values, const uint32_t* input_slots,
            int32_t input_count, Tensor* outputs, Memory& memory, const RunContext& run,
            bool may_reuse_input0) {
    bind(view, values, input_slots, input_count, outputs, static_cast<int32_t>(view.outputs.size()),
         memory, run, may_reuse_input0);
  }
  // The same for who has the number of outputs at hand.
  void bind(const NodeView& view, const Tensor* values, const uint32_t* input_slots,
            int32_t input_count, Tensor* outputs, int32_t output_count, Memory& memory,
            const RunContext& run, bool may_reuse_input0) {
    context.view_ = &view;
    context.state_ = view.state.get();
    context.values_ = values;
    context.input_slots_ = input_slots;
    context.input_count_ = input_count;
    context.outputs_ = outputs;
    context.output_count_ = output_count;
    context.memory_ = &memory;
    context.run_ = &run;
    context.may_reuse_input0_ = may_reuse_input0;
  }

  // A part of the kernel that `within` names, whose memory, lanes and run it has. Input i is
  // values[input_slots[i]]. `within` outlives the call.
  void bind_within(const Enclosing& within, const NodeView& view, const Tensor* values,
                   const uint32_t* input_slots, int32_t input_count, Tensor* outputs,
                   bool may_reuse_input0 = false) {
    const KernelContext& outer = *within.kernel;
    bind(view, values, input_slots, input_count, outputs, *outer.memory_, *outer.run_,
         may_reuse_input0);
    context.enclosing_ = &within;
  }
  // The values that the inputs of a kernel are among.
  static const Tensor* values(const KernelContext& ctx) { return ctx.values_; }
  // Which of the values input i of a kernel is.
  static uint32_t input_slot(const KernelContext& ctx, int i) { return ctx.input_slots_[i]; }
  // The kernel of `view` instead of the one that was bound.
  void use(const NodeView& view) {
    context.view_ = &view;
    context.state_ = view.state.get();
  }
  // A kernel: that of the newest view of the node that was bound.
  static void run_newest(KernelContext& context);

  // What bind() was told, for devices that run the kernel later or elsewhere.
  const NodeView& view() const { return *context.view_; }
  Tensor* outputs() const { return context.outputs_; }
  // The memory that new outputs come from.
  Memory& memory() const { return *context.memory_; }
};

// The shape of output `index`: known before the step, or inferred from the shapes that the inputs
// of `call` really have. Throws: what the op's shape rule throws; InternalError if the shape
// depends on values.
Shape output_shape(const KernelCall& call, int index);
// The same, always by the shape rule: for who fills an output without a kernel that would refuse
// inputs that turn out not to fit the known shape.
Shape inferred_output_shape(const KernelCall& call, int index);

// Runs a plain kernel once on host tensors: for what is computed before the first step, and tests.
std::vector<Tensor> run_kernel(const NodeView& view, const std::vector<Tensor>& inputs,
                               Memory& memory, const RunContext& run);

}  // namespace troupe

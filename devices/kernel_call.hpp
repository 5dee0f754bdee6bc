// KernelCall: fills in a KernelContext and runs a kernel. The firing loop keeps one per step;
// tests make their own.
// Owner: of a KernelCall its caller; of a NodeView the code of the node. Thread: one at a time for
// a KernelCall; any for a NodeView.
#pragma once

#include <memory>
#include <vector>

#include "devices/memory/memory.hpp"
#include "troupe/op.hpp"

namespace troupe {

class Lanes;

// The constant data of a node on a device, shared by all firings.
struct alignas(64) NodeView {
  // The first cache line holds the fields that a firing reads: output 0 if it fits (see
  // Tensor::type_of), the node, the state.
  Tensor like;        // for Tensor::become(); without a dtype if it does not fit
  int64_t bytes = 0;  // of output 0
  const Node* node = nullptr;
  // Runs a plain kernel: kernel->run, or KernelCall::run_checked() where the kernel is not one of
  // the library's own, which make what their ops say.
  void (*fire)(KernelContext&) = nullptr;
  std::shared_ptr<const KernelState> state;  // the result of kernel->prepare
  const Kernel* kernel = nullptr;
  struct Out {
    DType dtype;
    bool known;  // shape has no -1: no inference when firing
    Shape shape;
  };
  std::vector<Out> outputs;
  uint64_t label = 0;      // marks the buffers of its outputs (devices/held.hpp); 0: unmarked
  Lanes* lanes = nullptr;  // for the kernel's jobs; null: its own thread does all of them

  static NodeView make(const Node& node, const Kernel& kernel);  // calls kernel.prepare
};

// For a kernel that runs another kernel as a part of itself.
struct Enclosing {
  const KernelContext* kernel = nullptr;
  // Called by KernelContext::finish() and take() of the inner kernel. Without `take` its input is
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
  // them. may_reuse_input0: the op declares `in_place`, and this is the last reader of that slot of
  // `values`.
  void bind(const NodeView& view, const Tensor* values, const uint32_t* input_slots,
            int32_t input_count, Tensor* outputs, Memory& memory, const RunContext& run,
            bool may_reuse_input0) {
    bind(view, values, input_slots, input_count, outputs, static_cast<int32_t>(view.outputs.size()),
         memory, run, may_reuse_input0);
  }
  // The same for a caller that knows the number of outputs.
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

  // Binds a part of the kernel of `within`, which shares its memory, lanes and run. Input i is
  // values[input_slots[i]]. `within` outlives the call.
  void bind_within(const Enclosing& within, const NodeView& view, const Tensor* values,
                   const uint32_t* input_slots, int32_t input_count, Tensor* outputs,
                   bool may_reuse_input0 = false) {
    const KernelContext& outer = *within.kernel;
    bind(view, values, input_slots, input_count, outputs, *outer.memory_, *outer.run_,
         may_reuse_input0);
    context.enclosing_ = &within;
  }
  // The array that holds the inputs of a kernel.
  static const Tensor* values(const KernelContext& ctx) { return ctx.values_; }
  // The index of a kernel's input i in that array.
  static uint32_t input_slot(const KernelContext& ctx, int i) { return ctx.input_slots_[i]; }
  // Runs the bound kernel and checks its outputs. Throws: Error(kernel_failed) for an output that
  // the node does not have, and the exceptions of the kernel.
  static void run_checked(KernelContext& context);

  // The arguments of bind(), for devices that run the kernel later or elsewhere.
  const NodeView& view() const { return *context.view_; }
  Tensor* outputs() const { return context.outputs_; }
  // The memory for new outputs.
  Memory& memory() const { return *context.memory_; }
};

// The shape of output `index`: known before the step, or inferred from the actual shapes of the
// inputs of `call`. Throws: any exception of the op's shape rule; InternalError if the shape
// depends on values.
Shape output_shape(const KernelCall& call, int index);
// The same, but always by the shape rule: for a caller that fills an output without a kernel, which
// would refuse inputs that do not fit the known shape.
Shape inferred_output_shape(const KernelCall& call, int index);

// Runs a plain kernel once on host tensors: for computations before the first step, and tests.
std::vector<Tensor> run_kernel(const NodeView& view, const std::vector<Tensor>& inputs,
                               Memory& memory, const RunContext& run);

}  // namespace troupe

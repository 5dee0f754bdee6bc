// KernelCall: one firing of a plain kernel, and the KernelContext that the kernel sees. The firing
// loop keeps one per step; tests make their own.
// Owner: of a KernelCall its caller; of a NodeView the code of the node. Thread: one at a time for
// a KernelCall; any for a NodeView.
#pragma once

#include <memory>
#include <vector>

#include "devices/memory/memory.hpp"
#include "devices/run_context.hpp"
#include "graph/op.hpp"

namespace troupe {

class Lanes;

// The constant data of a node on a device, shared by all firings.
struct alignas(64) NodeView {
  // The first cache line holds the fields that a firing reads: output 0 if it fits (see
  // tensor_type()), the node, the state.
  Tensor like;        // for become() of graph/base/buffer.hpp; without a dtype if it does not fit
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

// The state of a node that does the work of several (ops/elementwise/fused.cpp).
class ProgramState : public KernelState {
 public:
  // The nodes, as a graph with one placeholder for each input.
  virtual const Graph& program() const = 0;
};

// For a kernel that runs another kernel as a part of itself.
struct Enclosing {
  const KernelContext* kernel = nullptr;
  // Called by finish() and take() of the inner kernel. Without `take` its input is whole.
  void (*finish)(const void* context, int64_t begin, int64_t n) = nullptr;
  void (*take)(const void* context, int64_t begin, int64_t n, int64_t unit,
               void (*part)(const void* part_context, const void* x, int64_t at, int64_t count),
               const void* part_context) = nullptr;
  const void* context = nullptr;
};

class KernelCall : public KernelContext {
 public:
  // The call that a kernel runs in: all contexts are calls.
  static const KernelCall& of(const KernelContext& ctx) {
    return static_cast<const KernelCall&>(ctx);
  }

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
    view_ = &view;
    state_ = view.state.get();
    values_ = values;
    input_slots_ = input_slots;
    input_count_ = input_count;
    outputs_ = outputs;
    output_count_ = output_count;
    memory_ = &memory;
    run_ = &run;
    may_reuse_input0_ = may_reuse_input0;
  }

  // Binds a part of the kernel of `within`, which shares its memory, lanes and run. Input i is
  // values[input_slots[i]]. `within` outlives the call.
  void bind_within(const Enclosing& within, const NodeView& view, const Tensor* values,
                   const uint32_t* input_slots, int32_t input_count, Tensor* outputs,
                   bool may_reuse_input0 = false) {
    const KernelCall& outer = of(*within.kernel);
    bind(view, values, input_slots, input_count, outputs, *outer.memory_, *outer.run_,
         may_reuse_input0);
    enclosing_ = &within;
  }
  // The array that holds the inputs.
  const Tensor* values() const { return values_; }
  // The index of input i in that array.
  uint32_t input_slot(int i) const { return input_slots_[i]; }
  // Runs the bound kernel and checks its outputs. Throws: Error(kernel_failed) for an output that
  // the node does not have, and the exceptions of the kernel.
  static void run_checked(KernelContext& context);

  // Elements [begin, begin + n) of output 0 are final: the enclosing kernel goes on with them on
  // this thread, before they leave its cache. A kernel that declares `finishes` calls this once for
  // each element, from its jobs.
  void finish(int64_t begin, int64_t n) const {
    if (enclosing_ && enclosing_->finish) enclosing_->finish(enclosing_->context, begin, n);
  }

  // The counterpart of finish() for input: calls f(x, at, count) for consecutive parts of the
  // elements [begin, begin + n) of input 0. The `count` elements from number `at` on are contiguous
  // at `x` until f returns; count is a multiple of `unit` <= kTakeUnitMax except in the last part.
  // A kernel that declares `takes` reads its input in no other way, except for its type, and takes
  // each element once, from its jobs: so elements may be made at that moment and exist only in its
  // cache.
  template <class T, class F>
  void take(int64_t begin, int64_t n, int64_t unit, const F& f) const {
    take_parts(
        begin, n, unit,
        [](const void* context, const void* x, int64_t at, int64_t count) {
          (*static_cast<const F*>(context))(static_cast<const T*>(x), at, count);
        },
        &f);
  }
  static constexpr int64_t kTakeUnitMax = 512;
  // Input 0 is in memory as a whole, so it need not be taken.
  bool input_is_whole() const { return !enclosing_ || !enclosing_->take; }

  // The arguments of bind(), for devices that run the kernel later or elsewhere.
  const NodeView& view() const { return *view_; }
  Tensor* outputs() const { return outputs_; }
  Memory& memory() const { return *memory_; }  // for new outputs
  const RunContext& run() const { return *run_; }
  const Enclosing* enclosing() const { return enclosing_; }
  bool may_reuse_input0() const { return may_reuse_input0_; }

 private:
  void take_parts(int64_t begin, int64_t n, int64_t unit,
                  void (*part)(const void*, const void*, int64_t, int64_t),
                  const void* context) const;

  const NodeView* view_ = nullptr;
  const RunContext* run_ = nullptr;
  Memory* memory_ = nullptr;
  const Enclosing* enclosing_ = nullptr;
  bool may_reuse_input0_ = false;
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

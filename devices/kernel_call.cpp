// The members of NodeView, KernelCall and KernelContext (troupe/op.hpp): how a kernel gets its
// outputs. In the usual case, a shape known before the step, this copies a 24-byte type and asks
// the memory for a buffer.
#include "devices/kernel_call.hpp"

#include <algorithm>
#include <numeric>

#include "devices/checked_outputs.hpp"
#include "devices/failure.hpp"
#include "devices/held.hpp"
#include "devices/threads/lanes.hpp"

namespace troupe {
namespace {

InferContext actual_types(const KernelContext& ctx) {
  std::vector<TensorType> types;
  types.reserve(static_cast<size_t>(ctx.input_count()));
  for (int i = 0; i < ctx.input_count(); ++i)
    types.push_back({ctx.input(i).dtype(), ctx.input(i).shape()});
  return {ctx.node(), std::move(types)};
}

// Shape `index` of the shapes that the rule gave in a step. It may give fewer than while building.
const Shape& inferred(const NodeView& view, const std::vector<Shape>& shapes, int index) {
  if (shapes.size() == view.outputs.size()) return shapes[static_cast<size_t>(index)];
  throw Error(Errc::invalid_argument, "infer_shapes of ", view.node->op->name, " gave ",
              shapes.size(), " shapes for the ", describe(*view.node), ", which has ",
              view.outputs.size(), " outputs; it must give one for each");
}

// The shape of output `index`, from the actual shapes of the inputs.
Shape infer_output(const NodeView& view, const InferContext& inputs, int index) {
  const Op& op = *view.node->op;
  TROUPE_CHECK(op.infer_shapes, describe(*view.node), " has outputs but no shape rule");
  const Shape shape = inferred(view, op.infer_shapes(inputs), index);
  if (!shape.is_known())
    throw Error(Errc::invalid_argument, "output ", index, " of the ", describe(*view.node),
                " has shape ", shape,
                " even when the step runs; its kernel must say the shape with output(i, shape)");
  return shape;
}

// Calls `work` for the node. Its errors name the node.
template <class F>
auto named(const Node& node, const F& work) {
  try {
    return work();
  } catch (const InternalError&) {
    throw;
  } catch (const Error& e) {
    throw Error(e.code(), failed_in(node, e.what()));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    throw Error(Errc::kernel_failed, failed_in(node, e.what()));
  } catch (...) {
    throw Error(Errc::kernel_failed, failed_in(node, "it threw what is no std::exception"));
  }
}

// True for one of the library's own kernels.
bool is_trusted(const Op& op, const Kernel& kernel) {
  const Op* known = op.built_in;
  if (known == &op) return true;
  return known && std::any_of(known->kernels.begin(), known->kernels.end(),
                              [&](const Kernel& k) { return k.run == kernel.run; });
}

// Output `i` of a shape that is inferred now. This and the next function are not inlined: the texts
// of their errors lie on the stack, and each output would pay for the guard of that stack.
[[gnu::noinline]] Tensor& make_inferred(const KernelCall& call, int i) {
  const NodeView& view = call.view();
  const NodeView::Out& out = view.outputs[static_cast<size_t>(i)];
  const Shape shape = out.known ? out.shape : infer_output(view, actual_types(call), i);
  return call.outputs()[i] =
             allocate_tensor(call.memory(), {&view, i, call.run().run, out.dtype, &shape});
}

// Output 0, in the memory of `input`, input 0, if it fits.
[[gnu::noinline]] Tensor& make_inferred_in_place(const KernelCall& call, Tensor& input) {
  const NodeView& view = call.view();
  const NodeView::Out& out = view.outputs[0];
  // With several outputs, the shapes of the others may still have to be inferred from input 0.
  if (view.outputs.size() > 1 || !may_be_written(input) || input.dtype() != out.dtype)
    return make_inferred(call, 0);
  const Shape shape = out.known ? out.shape : infer_output(view, actual_types(call), 0);
  if (input.shape() != shape) return make_inferred(call, 0);
  Tensor& output = call.outputs()[0];
  output.swap(input);
  mark(call.memory(), buffer_of(output), output.byte_size(),
       {.view = &view, .run = call.run().run});
  return output;
}

}  // namespace

NodeView NodeView::make(const Node& node, const Kernel& kernel) {
  NodeView view;
  view.node = &node;
  view.kernel = &kernel;
  view.fire = is_trusted(*node.op, kernel) ? kernel.run : KernelCall::run_checked;
  for (const TensorType& type : node.outputs) {
    const bool known = type.shape.is_known();
    view.outputs.push_back({.dtype = type.dtype, .known = known, .shape = type.shape});
  }
  if (!view.outputs.empty() && view.outputs[0].known) {
    const NodeView::Out& out = view.outputs[0];
    view.like = tensor_type(out.dtype, out.shape);
    view.bytes = out.shape.size() * size_of(out.dtype);
  }
  if (kernel.prepare) view.state = named(node, [&] { return kernel.prepare(node); });
  if (kernel.prepare && !view.state)
    throw Error(Errc::invalid_argument, "`prepare` of a kernel of ", node.op->name,
                " returned no state for the ", describe(node),
                "; return one, or leave `prepare` out");
  return view;
}

Shape output_shape(const KernelCall& call, int index) {
  const NodeView::Out& out = call.view().outputs[static_cast<size_t>(index)];
  return out.known ? out.shape : inferred_output_shape(call, index);
}

Shape inferred_output_shape(const KernelCall& call, int index) {
  return infer_output(call.view(), actual_types(call), index);
}

std::vector<Tensor> run_kernel(const NodeView& view, const std::vector<Tensor>& inputs,
                               Memory& memory, const RunContext& run) {
  TROUPE_CHECK(view.kernel->run, describe(*view.node),
               " has a kernel that finishes later; a session runs those");
  std::vector<uint32_t> slots(inputs.size());
  std::iota(slots.begin(), slots.end(), 0u);
  std::vector<Tensor> outputs(view.outputs.size());
  KernelCall call;
  call.bind(view, inputs.data(), slots.data(), static_cast<int32_t>(inputs.size()), outputs.data(),
            memory, run,
            /*may_reuse_input0=*/false);
  const auto types = types_to_check(call, view);
  named(*view.node, [&] { view.kernel->run(call); });
  check_outputs(view, outputs.data(), types);
  return outputs;
}

std::optional<InferContext> types_to_check(const KernelContext& context, const NodeView& view) {
  const Op& op = *view.node->op;
  const bool open = std::any_of(view.outputs.begin(), view.outputs.end(),
                                [](const NodeView::Out& out) { return !out.known; });
  if (!open || op.value_shapes || !op.infer_shapes) return std::nullopt;
  return actual_types(context);
}

void check_outputs(const NodeView& view, const Tensor* outputs,
                   const std::optional<InferContext>& inputs) {
  std::vector<Shape> by_inputs;
  if (inputs) by_inputs = view.node->op->infer_shapes(*inputs);
  for (size_t i = 0; i < view.outputs.size(); ++i) {
    const Tensor& made = outputs[i];
    const NodeView::Out& out = view.outputs[i];
    if (!made.defined())
      throw Error(Errc::kernel_failed, "the kernel of ", describe(*view.node), " left output ", i,
                  " undefined; it must make all of them");
    if (made.dtype() != out.dtype || !out.shape.accepts(made.shape()))
      throw Error(Errc::kernel_failed, "the kernel of ", describe(*view.node), " gave ",
                  made.dtype(), made.shape(), " as output ", i, ", which is to be ", out.dtype,
                  out.shape);
    if (!inputs) continue;
    if (const Shape& by = inferred(view, by_inputs, static_cast<int>(i)); !by.accepts(made.shape()))
      throw Error(Errc::kernel_failed, "the kernel of ", describe(*view.node), " gave ",
                  made.dtype(), made.shape(), " as output ", i, ", which by its inputs is to be ",
                  out.dtype, by);
  }
}

Tensor& output_by_rule(KernelContext& context, int i, const Shape& shape) {
  const KernelCall& call = KernelCall::of(context);
  const NodeView::Out& out = call.view().outputs[static_cast<size_t>(i)];
  TROUPE_CHECK(out.shape.accepts(shape), describe(*call.view().node), " has output ", i,
               " of shape ", shape, ", but the graph says ", out.shape);
  return call.outputs()[i] =
             allocate_tensor(call.memory(), {&call.view(), i, call.run().run, out.dtype, &shape});
}

void KernelCall::run_checked(KernelContext& context) {
  auto& call = static_cast<KernelCall&>(context);
  const NodeView& view = call.view();
  const auto types = types_to_check(call, view);
  view.kernel->run(call);
  check_outputs(view, call.outputs(), types);
}

Tensor& KernelContext::make_output(int i) {
  const KernelCall& call = KernelCall::of(*this);
  const NodeView& view = call.view();
  if (i != 0 || view.like.dtype() == DType::none) [[unlikely]]
    return make_inferred(call, i);
  Buffer* const buffer =
      allocate(call.memory(), view.bytes, {.view = &view, .run = call.run().run});
  return become(outputs_[0], buffer, view.like);
}

Tensor& KernelContext::output_in_place() {
  check_output(0);
  if (outputs_[0].defined()) return outputs_[0];
  const KernelCall& call = KernelCall::of(*this);
  if (!call.may_reuse_input0()) return make_output(0);
  // The step says that this node is the last reader of the slot, so its handle may be taken.
  Tensor& input = const_cast<Tensor&>(values_[input_slots_[0]]);
  const NodeView& view = call.view();
  if (view.like.dtype() == DType::none) [[unlikely]]
    return make_inferred_in_place(call, input);
  if (!can_become(input, view.like)) return make_output(0);
  Buffer* const buffer = detach(input);
  if (view.bytes > Memory::kMarkedAbove) [[unlikely]]
    mark(call.memory(), buffer, view.bytes, {.view = &view, .run = call.run().run});
  return become(outputs_[0], buffer, view.like);
}

Tensor& KernelContext::output(int i, const Shape& shape) {
  check_output(i);
  const KernelCall& call = KernelCall::of(*this);
  const NodeView& view = call.view();
  const NodeView::Out& out = view.outputs[static_cast<size_t>(i)];
  const auto refused = [&](const char* why, const Shape& by) {
    return Error(Errc::kernel_failed, "the kernel of the ", describe(node()), " wants output ", i,
                 " of shape ", shape, why, by);
  };
  if (!shape.is_known() || !out.shape.accepts(shape))
    throw refused(", but the graph says ", out.shape);
  if (const Op& op = *view.node->op; !out.known && !op.value_shapes && op.infer_shapes)
    if (const Shape by = inferred(view, op.infer_shapes(actual_types(*this)), i);
        !by.accepts(shape))
      throw refused(", but by its inputs it has ", by);
  if (!outputs_[i].defined() || !(outputs_[i].shape() == shape))
    outputs_[i] = allocate_tensor(call.memory(), {&view, i, call.run().run, out.dtype, &shape});
  return outputs_[i];
}

Tensor KernelContext::scratch(DType dtype, const Shape& shape) {
  const KernelCall& call = KernelCall::of(*this);
  const MemoryRequest request{&call.view(), MemoryRequest::kScratch, call.run().run, dtype, &shape};
  return allocate_tensor(call.memory(), request);
}

void KernelContext::run_jobs(int64_t jobs, void (*job)(const void*, int64_t),
                             const void* context) const {
  const KernelCall& call = KernelCall::of(*this);
  if (call.enclosing()) return call.enclosing()->kernel->run_jobs(jobs, job, context);
  if (call.view().lanes) return call.view().lanes->run(jobs, job, context);
  for (int64_t i = 0; i < jobs; ++i) job(context, i);
}

void KernelCall::take_parts(int64_t begin, int64_t n, int64_t unit,
                            void (*part)(const void*, const void*, int64_t, int64_t),
                            const void* context) const {
  if (n <= 0) return;
  TROUPE_CHECK(unit >= 1 && unit <= kTakeUnitMax, describe(node()), " takes units of ", unit);
  if (!input_is_whole())
    return enclosing_->take(enclosing_->context, begin, n, unit, part, context);
  const Tensor& x = input(0);
  part(context, static_cast<const char*>(x.raw()) + begin * size_of(x.dtype()), begin, n);
}

const Node& KernelContext::node() const { return *KernelCall::of(*this).view().node; }

int64_t KernelContext::step() const { return KernelCall::of(*this).run().step; }

void KernelContext::refuse_input(int i) const {
  refuse_index(node(), "kernel", "input", i, static_cast<size_t>(input_count_));
}

void KernelContext::refuse_output(int i) const {
  refuse_index(node(), "kernel", "output", i, static_cast<size_t>(output_count_));
}

std::string KernelContext::where() const { return actual_types(*this).error("").what(); }

}  // namespace troupe

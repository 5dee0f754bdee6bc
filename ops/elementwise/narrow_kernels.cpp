// Kernels for f16, bf16 and i8 made of an op's kernel for f32 or i32 (ops/support/narrow.hpp). An
// element-wise op goes by blocks that stay in the nearest cache, and so takes part in fusion; a
// reduction gets its input by blocks; other ops widen whole inputs into scratch memory.
#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "devices/kernel_call.hpp"
#include "graph/base/buffer.hpp"
#include "graph/op.hpp"
#include "ops/support/elementwise.hpp"
#include "ops/support/narrow.hpp"

namespace troupe {
namespace {

constexpr int64_t kBlock = 512;    // elements; four blocks of f32 are 8 KiB
constexpr int64_t kTaken = 2048;   // elements
constexpr size_t kValuesMax = 32;  // inputs or outputs of an op

const Kernel* cpu_kernel(const std::vector<Kernel>& kernels, DType dtype) {
  for (const Kernel& kernel : kernels)
    if (kernel.device == DeviceKind::cpu && kernel.dtype == dtype) return &kernel;
  return nullptr;
}

std::unique_ptr<KernelState> prepare(const Node& node) {
  return std::make_unique<WidenedNode>(node);
}

void run_whole(KernelContext& ctx) { ctx.state<WidenedNode>().run(ctx); }

// A part of a row.
void elements(const ElementRun& run) {
  const Node& node = *run.node;
  const DType dtype = dispatch_dtype(node), result = node.outputs[0].dtype;
  const Kernel* kernel = cpu_kernel(node.op->kernels, computed_as(dtype));
  alignas(64) float blocks[ElementRun::kInputsMax + 1][kBlock];  // or int32_t
  ElementRun part{.node = &node};
  for (int64_t begin = 0; begin < run.n; begin += kBlock) {
    part.n = std::min(kBlock, run.n - begin);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const DType type = node.inputs[i].dtype();
      const char* x = static_cast<const char*>(run.inputs[i]);
      part.once[i] = run.once[i];
      if (!run.once[i]) x += begin * size_of(type);
      part.inputs[i] = x;
      if (type != dtype) continue;
      part.inputs[i] = blocks[i];
      if (begin == 0 || !run.once[i]) widen(dtype, x, blocks[i], run.once[i] ? 1 : part.n);
    }
    void* y = static_cast<char*>(run.output) + begin * size_of(result);
    part.output = result == dtype ? blocks[ElementRun::kInputsMax] : y;
    kernel->elements(part);
    if (result == dtype) narrow(dtype, part.output, y, part.n);
  }
}

// By blocks where each input has the output's shape or one element; other broadcasts as a whole.
void run_elements(KernelContext& ctx) {
  const int count = ctx.input_count();
  int widest = 0;
  for (int i = 1; i < count; ++i)
    if (ctx.input(i).size() > ctx.input(widest).size() ||
        (ctx.input(i).size() == ctx.input(widest).size() &&
         ctx.input(i).ndim() > ctx.input(widest).ndim()))
      widest = i;
  const Shape shape = ctx.input(widest).shape();
  const int64_t n = shape.size();
  ElementRun all{.node = &ctx.node(), .n = n};
  bool blocks = n > 0 && ctx.node().outputs[0].shape.accepts(shape);
  for (int i = 0; i < count; ++i) {
    const Tensor& x = ctx.input(i);
    all.inputs[i] = x.raw();
    all.once[i] = x.size() == 1 && n > 1;
    blocks = blocks && (all.once[i] ? x.ndim() <= shape.ndim() : x.shape() == shape);
  }
  if (!blocks) return run_whole(ctx);
  Tensor& output = ctx.node().op->in_place ? ctx.output_in_place() : ctx.output();
  all.output = output.mutable_raw();
  in_parts(ctx, n, [&](int64_t begin, int64_t length) {
    ElementRun part = all;
    part.n = length;
    for (int i = 0; i < count; ++i)
      if (!part.once[i])
        part.inputs[i] = static_cast<const char*>(part.inputs[i]) +
                         begin * size_of(ctx.node().inputs[static_cast<size_t>(i)].dtype());
    part.output = static_cast<char*>(part.output) + begin * size_of(ctx.node().outputs[0].dtype);
    elements(part);
  });
}

// Elements of input 0 for a kernel that takes them (KernelCall::take), widened part by part.
struct WidenedParts {
  DType dtype;
  const char* elements;

  static void take(const void* self, int64_t begin, int64_t n, int64_t unit,
                   void (*part)(const void*, const void*, int64_t, int64_t), const void* context) {
    static_assert(kTaken >= KernelCall::kTakeUnitMax);
    const auto& from = *static_cast<const WidenedParts*>(self);
    alignas(64) float wide[kTaken];  // or int32_t
    const int64_t step = kTaken / unit * unit;
    for (int64_t at = begin; at < begin + n; at += step) {
      const int64_t count = std::min(step, begin + n - at);
      widen(from.dtype, from.elements + at * size_of(from.dtype), wide, count);
      part(context, wide, at, count);
    }
  }
};

Kernel narrow_kernel(const Kernel& wide, DType dtype) {
  const bool by_blocks = wide.elements != nullptr;
  return {.dtype = dtype,
          .run = by_blocks ? run_elements : run_whole,
          .prepare = prepare,
          .elements = by_blocks ? elements : nullptr,
          .finishes = wide.finishes};
}

}  // namespace

WidenedNode::WidenedNode(const Node& node) : dtype_(dispatch_dtype(node)), node_(node) {
  TROUPE_CHECK(node.inputs.size() <= kValuesMax && node.outputs.size() <= kValuesMax,
               describe(node), " has more than ", kValuesMax, " inputs or outputs");
  const DType wide = computed_as(dtype_);
  for (TensorType& output : node_.outputs)
    if (output.dtype == dtype_) output.dtype = wide;
  view_ = NodeView::make(node_, *cpu_kernel(node.op->kernels, wide));
}

void WidenedNode::run(KernelContext& ctx) const {
  const int count = ctx.input_count();
  std::array<Tensor, kValuesMax> inputs, outputs;
  std::array<uint32_t, kValuesMax> slots;
  std::iota(slots.begin(), slots.end(), 0u);
  const bool takes = view_.kernel->takes && ctx.input(0).dtype() == dtype_;
  for (int i = 0; i < count; ++i) {
    const Tensor& x = ctx.input(i);
    Tensor& input = inputs[static_cast<size_t>(i)];
    if (takes) {
      input = tensor_type(computed_as(dtype_), x.shape());
    } else if (x.dtype() == dtype_) {
      input = ctx.scratch(computed_as(dtype_), x.shape());
      widen_all(ctx, x, input);
    } else {
      input = x;
    }
  }
  const WidenedParts parts{dtype_, takes ? static_cast<const char*>(ctx.input(0).raw()) : nullptr};
  const Enclosing within{.kernel = &ctx,
                         .finish = [](const void*, int64_t, int64_t) {},
                         .take = takes ? WidenedParts::take : nullptr,
                         .context = &parts};
  KernelCall call;
  const bool reuse = !takes && node_.op->in_place && count > 0 && ctx.input(0).dtype() == dtype_;
  call.bind_within(within, view_, inputs.data(), slots.data(), count, outputs.data(), reuse);
  view_.kernel->run(call);
  for (size_t i = 0; i < node_.outputs.size(); ++i) {
    Tensor& y = outputs[i];
    const auto at = static_cast<int>(i);
    if (!y.defined()) continue;
    if (ctx.node().outputs[i].dtype == dtype_)
      narrow_all(ctx, y, ctx.output(at, y.shape()), at == 0);
    else
      ctx.set_output(at, std::move(y));
  }
}

void add_narrow_kernels(Op& op) {
  // Told its dtype: what it draws or counts is not rounded behind its back.
  const bool told = std::any_of(op.attrs.begin(), op.attrs.end(),
                                [](const AttrSpec& a) { return a.name == "dtype"; });
  if (told || op.dispatch < 0 || cpu_kernel(op.kernels, DType::none)) return;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Kernel* wide = cpu_kernel(op.kernels, DType::f32);
    if (cpu_kernel(op.kernels, dtype) || !wide || !wide->run) continue;
    op.kernels.push_back(narrow_kernel(Kernel(*wide), dtype));
  }
}

std::vector<Kernel> with_i8(std::vector<Kernel> kernels) {
  const Kernel* wide = cpu_kernel(kernels, DType::i32);
  TROUPE_CHECK(wide && wide->run, "there is no kernel for i32 to compute i8 with");
  kernels.push_back(narrow_kernel(Kernel(*wide), DType::i8));
  return kernels;
}

}  // namespace troupe

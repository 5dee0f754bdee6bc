// The bf16 kernels of Convolution and its gradients. The cut into jobs of a few images, and so the
// order of sums, is the same as for f32 (ops/images/convolutions.hpp). A filter's gradient is
// summed in f32 over all jobs, and rounded once.
#include "ops/images/convolution_bf16.hpp"

#include "devices/kernel_call.hpp"
#include "ops/images/convolutions.hpp"
#include "ops/support/layout_counts.hpp"
#include "ops/support/narrow.hpp"
#include "ops/reductions/sum_parts.hpp"

namespace troupe {
namespace {

using Pass = ConvolutionSizes::Pass;
using dnnl::memory;

memory::desc as_bf16(memory::desc type) {
  type.data.data_type = dnnl_bf16;  // layouts count elements, not bytes
  return type;
}

ConvolutionTypes types_of(const ConvolutionSizes& sizes) {
  ConvolutionTypes types(sizes);
  types.x = as_bf16(types.x);
  types.y = as_bf16(types.y);
  types.filter = as_bf16(types.filter);
  types.any_filter = as_bf16(types.any_filter);
  return types;
}

template <class Desc>
std::unique_ptr<OneDnnPrimitive> primitive_of(dnnl::primitive primitive, const Desc& desc,
                                              std::vector<OneDnnPrimitive::Argument> arguments) {
  return std::make_unique<OneDnnPrimitive>(std::move(primitive), desc.scratchpad_desc(),
                                           std::move(arguments));
}

// Compiles one direction for some images. Arguments: images, filter, images; or for the filter's
// gradient: images x, images dy, the gradient in f32. Returns null if oneDNN has no bf16 code for
// it, for example with one channel. `filter`: in, the layout to use, or zero; out, the chosen
// layout.
std::unique_ptr<OneDnnPrimitive> compile(Pass pass, const ConvolutionTypes& t,
                                         memory::desc* filter) {
  const bool given = !filter->is_zero();
  const memory::desc own = given ? *filter : t.any_filter;
  constexpr auto kDirect = dnnl::algorithm::convolution_direct;
  const dnnl::convolution_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, kDirect, t.x, pass == Pass::forward ? own : t.any_filter,
       t.y, t.strides, t.gaps, t.before, t.after},
      onednn_attr(), onednn_engine(), /*allow_empty=*/true);
  if (!forward) return nullptr;
  if (pass == Pass::forward) {
    *filter = forward.weights_desc();
    return primitive_of(dnnl::convolution_forward(forward), forward,
                        {{DNNL_ARG_SRC, t.x}, {DNNL_ARG_WEIGHTS, *filter}, {DNNL_ARG_DST, t.y}});
  }
  if (pass == Pass::to_input) {
    const dnnl::convolution_backward_data::primitive_desc desc(
        {kDirect, t.x, own, t.y, t.strides, t.gaps, t.before, t.after}, onednn_attr(),
        onednn_engine(), forward, /*allow_empty=*/true);
    if (!desc) return nullptr;
    *filter = desc.weights_desc();
    return primitive_of(
        dnnl::convolution_backward_data(desc), desc,
        {{DNNL_ARG_DIFF_DST, t.y}, {DNNL_ARG_WEIGHTS, *filter}, {DNNL_ARG_DIFF_SRC, t.x}});
  }
  memory::desc sums = own;
  sums.data.data_type = dnnl_f32;
  const dnnl::convolution_backward_weights::primitive_desc desc(
      {kDirect, t.x, sums, t.y, t.strides, t.gaps, t.before, t.after}, onednn_attr(),
      onednn_engine(), forward, /*allow_empty=*/true);
  if (!desc) return nullptr;
  *filter = desc.diff_weights_desc();
  return primitive_of(
      dnnl::convolution_backward_weights(desc), desc,
      {{DNNL_ARG_SRC, t.x}, {DNNL_ARG_DIFF_DST, t.y}, {DNNL_ARG_DIFF_WEIGHTS, *filter}});
}

// The compiled primitives for one set of sizes.
struct Plan {
  Plan(Pass pass, const ConvolutionSizes& sizes) : batch(sizes.batch), images(sizes.images(pass)) {
    memory::desc filter;
    const auto compile_part = [&](int64_t n) {
      ConvolutionSizes part = sizes;
      part.batch = n;
      auto made = compile(pass, types_of(part), &filter);
      if (made) scratch_bytes = std::max(scratch_bytes, (made->scratch_bytes() + 63) / 64 * 64);
      return made;
    };
    job = compile_part(images);
    if (!job) return;
    if (const int64_t left = batch % images; left > 0) rest = compile_part(left);
    TROUPE_CHECK(rest || batch % images == 0, "oneDNN has a pass over ", images,
                 " images, but none over ", batch % images);
    const memory::desc ours = types_of(sizes).filter;
    reorder = pass == Pass::to_filter ? onednn_reorder(filter, ours) : onednn_reorder(ours, filter);
    filter_bytes = static_cast<int64_t>(filter.get_size());
  }

  int64_t batch, images;                       // of the whole; of a job
  std::unique_ptr<OneDnnPrimitive> job, rest;  // job: null if oneDNN has no bf16 code
  std::unique_ptr<OneDnnPrimitive> reorder;    // between our bf16 filter and oneDNN's; may be null
  int64_t filter_bytes = 0, scratch_bytes = 0;

  int64_t jobs() const { return (batch + images - 1) / images; }
};

struct State final : KernelState {
  explicit State(const Node& node) : options(convolution_options(node)), widened(node) {}
  ConvolutionOptions options;
  WidenedNode widened;
  ShapeCache<std::array<int64_t, 9>, Plan> plans;
};

std::unique_ptr<KernelState> prepare(const Node& node) { return std::make_unique<State>(node); }

// Runs all jobs. Calls addresses(job, its first image) for the arguments and done(first image,
// images) after each job.
template <class Addresses, class Done>
void run_jobs(KernelContext& ctx, const Plan& plan, const Addresses& addresses, const Done& done) {
  Tensor scratch;
  if (plan.scratch_bytes > 0)
    scratch = ctx.scratch(DType::u8, Shape{plan.scratch_bytes * plan.jobs()});
  uint8_t* const at = scratch.defined() ? scratch.mutable_data<uint8_t>() : nullptr;
  ctx.parallel(plan.jobs(), [&](int64_t i) {
    const int64_t first = i * plan.images;
    const bool whole = first + plan.images <= plan.batch;
    const std::array<const void*, 3> given = addresses(i, first);
    (whole ? *plan.job : *plan.rest)
        .execute(ctx, {given[0], given[1], given[2]}, at ? at + i * plan.scratch_bytes : nullptr);
    done(first, whole ? plan.images : plan.batch - first);
  });
}

// Computes images from images (input 0) and the filter (input 1).
void run_with_filter(KernelContext& ctx, const Plan& plan) {
  const Tensor &images = ctx.input(0), &given = ctx.input(1);
  const void* filter = given.raw();
  Tensor packed;
  if (plan.reorder) {
    packed = ctx.scratch(DType::u8, Shape{plan.filter_bytes});
    count_filter_reorder();
    plan.reorder->execute(ctx, {filter, packed.raw()});
    filter = packed.raw();
  }
  Tensor& output = ctx.output();
  const auto* from = images.data<BFloat16>();
  auto* to = output.mutable_data<BFloat16>();
  const int64_t image_in = images.size() / plan.batch, image_out = output.size() / plan.batch;
  run_jobs(
      ctx, plan,
      [&](int64_t, int64_t first) {
        return std::array<const void*, 3>{from + first * image_in, filter, to + first * image_out};
      },
      [&](int64_t first, int64_t n) {
        KernelCall::of(ctx).finish(first * image_out, n * image_out);
      });
}

// Computes the filter's gradient from images dy (input 0) and x (input 1).
void run_to_filter(KernelContext& ctx, const Plan& plan) {
  const Tensor &dy = ctx.input(0), &x = ctx.input(1);
  Tensor& dfilter = ctx.output();
  const int64_t size = plan.filter_bytes / static_cast<int64_t>(sizeof(float));
  Tensor parts = ctx.scratch(DType::f32, Shape{plan.jobs() * size});
  float* const sums = parts.mutable_data<float>();
  const auto *from = x.data<BFloat16>(), *slopes = dy.data<BFloat16>();
  const int64_t image_x = x.size() / plan.batch, image_y = dy.size() / plan.batch;
  run_jobs(
      ctx, plan,
      [&](int64_t job, int64_t first) {
        return std::array<const void*, 3>{from + first * image_x, slopes + first * image_y,
                                          sums + job * size};
      },
      [](int64_t, int64_t) {});
  sum_parts(ctx, sums, plan.jobs(), size);
  if (!plan.reorder) {
    narrow(DType::bf16, sums, dfilter.mutable_raw(), dfilter.size());
    return;
  }
  count_filter_reorder();
  plan.reorder->execute(ctx, {sums, dfilter.raw()});
}

template <Pass kPass>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  constexpr int kImages = kPass == Pass::forward ? 0 : kPass == Pass::to_input ? 2 : 1;
  constexpr int kFilter = kPass == Pass::to_filter ? 2 : 1;
  const auto& state = ctx.state<State>();
  const ConvolutionSizes sizes(ctx.input(kImages).shape(), ctx.input(kFilter).shape(),
                               state.options);
  if (sizes.is_empty() || !sizes.suits_onednn(kPass)) return state.widened.run(ctx);
  const auto plan =
      state.plans.get(sizes.key(), [&] { return std::make_unique<Plan>(kPass, sizes); });
  if (!plan->job)
    state.widened.run(ctx);
  else if (kPass == Pass::to_filter)
    run_to_filter(ctx, *plan);
  else
    run_with_filter(ctx, *plan);
}

template <Pass kPass>
Kernel kernel() {
  return {.dtype = DType::bf16,
          .run = cpu<kPass>,
          .prepare = prepare,
          .finishes = kPass != Pass::to_filter};
}

}  // namespace

void add_bf16_convolution(Op& op) {
  if (!multiplies_bf16()) return;
  if (op.name == "Convolution") op.kernels.push_back(kernel<Pass::forward>());
  if (op.name == "ConvolutionInputGradient") op.kernels.push_back(kernel<Pass::to_input>());
  if (op.name == "ConvolutionFilterGradient") op.kernels.push_back(kernel<Pass::to_filter>());
}

}  // namespace troupe

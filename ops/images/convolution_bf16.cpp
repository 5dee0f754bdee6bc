// The bf16 kernels of Convolution and its gradients. The cut into jobs of a few images, and so the
// order of sums, is the same as for f32 (ops/images/convolutions.hpp). A filter's gradient is
// summed in f32 over all jobs, and rounded once.
#include "ops/images/convolution_bf16.hpp"

#include "ops/images/convolutions.hpp"
#include "ops/support/narrow.hpp"

namespace troupe {
namespace {

using Pass = ConvolutionSizes::Pass;

struct State final : KernelState {
  explicit State(const Node& node) : options(convolution_options(node)), widened(node) {}
  ConvolutionOptions options;
  WidenedNode widened;
  ShapeCache<std::array<int64_t, 9>, ConvolutionPass> passes;
};

std::unique_ptr<KernelState> prepare(const Node& node) { return std::make_unique<State>(node); }

template <Pass kPass>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  constexpr int kImages = kPass == Pass::forward ? 0 : kPass == Pass::to_input ? 2 : 1;
  constexpr int kFilter = kPass == Pass::to_filter ? 2 : 1;
  const auto& state = ctx.state<State>();
  const ConvolutionSizes sizes(ctx.input(kImages).shape(), ctx.input(kFilter).shape(),
                               state.options);
  if (sizes.is_empty() || !sizes.suits_onednn(kPass)) return state.widened.run(ctx);
  const auto pass = state.passes.get(sizes.key(), [&] {
    return std::make_unique<ConvolutionPass>(sizes, kPass, dnnl::memory::data_type::bf16);
  });
  if (!pass->job)
    state.widened.run(ctx);
  else if (kPass == Pass::to_filter)
    run_to_filter(ctx, *pass);
  else
    run_with_filter(ctx, *pass);
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

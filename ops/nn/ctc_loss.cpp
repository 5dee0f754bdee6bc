// CtcLoss: loss[b] = -log of the probability that a path drawn from softmax(logits) gives the
// labels of row b, after repetitions and then blanks are removed (Graves et al. 2006). Labels that
// do not fit into the time give infinity with gradient 0. ops/nn/ctc.hpp describes the inputs.
//   loss: [batch]
#include "ops/gradients.hpp"
#include "ops/nn/ctc.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  require_ctc_dtypes(ctx, 0);
  return {ctx.dtype(0)};
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  return {Shape{checked_ctc_batch(ctx, 0)}};
}

std::vector<Output> gradient(const GradientContext& ctx) {
  return {ctc_loss_gradient(ctx.output_gradient(0), ctx.input(0), ctx.input(1), ctx.input(2),
                            ctx.input(3), ctx.attr<int64_t>("blank")),
          Output{}, Output{}, Output{}};
}

template <class T>
void cpu(KernelContext& ctx) {
  check_ctc_values(ctx, 0);
  const int64_t batch = ctx.input(0).dim(1), classes = ctx.input(0).dim(2);
  const T* x = ctx.input(0).data<T>();
  std::vector<T> y(static_cast<size_t>(classes));
  std::vector<double> alpha;
  T* loss = ctx.output(0, Shape{batch}).template mutable_data<T>();
  for (int64_t b = 0; b < batch; ++b) {
    CtcRow row = make_ctc_row(ctx, 0, b);
    for (int64_t t = 0; t < row.times; ++t)
      set_log_y(row, t, x + (t * batch + b) * classes, classes, y.data());
    loss[b] = static_cast<T>(0 - ctc_forward(row, alpha));  // 0, not -0, for probability 1
  }
}

}  // namespace

Op ctc_loss_op() {
  return {.name = "CtcLoss",
          .inputs = {"logits", "labels", "time_sizes", "label_sizes"},
          .outputs = {"loss"},
          .attrs = {{"blank", AttrKind::integer, int64_t{0}}},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::f32, cpu<float>},
                      {DeviceKind::cpu, DType::f64, cpu<double>}},
          .precision = Precision::wide};
}

Output ctc_loss(Output logits, Output labels, Output time_sizes, Output label_sizes, int64_t blank,
                Origin at) {
  return add_node({.op = "CtcLoss",
                   .inputs = {logits, labels, time_sizes, label_sizes},
                   .attrs = {{"blank", blank}}},
                  at);
}

}  // namespace troupe

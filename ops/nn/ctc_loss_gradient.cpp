// CtcLossGradient: dlogits[t, b, k] = dloss[b] * (softmax(logits)[t, b, k] - P(a path of row b's
// labels is at k at time t)) (Graves et al. 2006, equation 16). It is 0 past a row's time, and for
// labels that do not fit into the time. ops/nn/ctc.hpp describes the inputs.
//   dloss: [batch]   dlogits: the shape of logits
#include "ops/gradients.hpp"
#include "ops/nn/ctc.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  require_ctc_dtypes(ctx, 1);
  if (ctx.dtype(0) != ctx.dtype(1))
    throw ctx.error("dloss and logits must have one dtype, got ", ctx.dtype(0), " and ",
                    ctx.dtype(1), "; cast one of them");
  return {ctx.dtype(0)};
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  const int64_t batch = checked_ctc_batch(ctx, 1);
  const Shape& dloss = ctx.input(0);
  if (dloss.ndim() != 1 || !may_equal(dloss[0], batch))
    throw ctx.error("wants a dloss for each row, [", batch, "], got ", dloss);
  return {ctx.input(1)};
}

template <class T>
void cpu(KernelContext& ctx) {
  check_ctc_values(ctx, 1);
  const Shape shape = ctx.input(1).shape();
  const int64_t batch = shape[1], classes = shape[2];
  const T *dloss = ctx.input(0).data<T>(), *x = ctx.input(1).data<T>();
  std::vector<double> alpha;
  Tensor& output = ctx.output(0, shape);
  T* dx = output.mutable_data<T>();
  std::fill_n(dx, output.size(), T{0});
  for (int64_t b = 0; b < batch; ++b) {
    CtcRow row = make_ctc_row(ctx, 1, b);
    const auto at = [&](int64_t t) { return (t * batch + b) * classes; };
    for (int64_t t = 0; t < row.times; ++t) set_log_y(row, t, x + at(t), classes, dx + at(t));
    const double log_p = ctc_forward(row, alpha);
    const bool fits = log_p != -std::numeric_limits<double>::infinity();
    if (fits) ctc_occupancy(row, log_p, alpha);
    for (int64_t t = 0; t < row.times; ++t) {
      T* to = dx + at(t);
      const double* p = alpha.data() + t * row.states();
      if (fits)
        for (const int64_t k : row.classes) to[k] -= static_cast<T>(*p++);
      for (int64_t k = 0; k < classes; ++k) to[k] = fits ? to[k] * dloss[b] : T{0};
    }
  }
}

}  // namespace

Op ctc_loss_gradient_op() {
  return {.name = "CtcLossGradient",
          .inputs = {"dloss", "logits", "labels", "time_sizes", "label_sizes"},
          .outputs = {"dlogits"},
          .attrs = {{"blank", AttrKind::integer, int64_t{0}}},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .no_gradient = "the second derivatives of CTC have no kernel",
          .kernels = {{DeviceKind::cpu, DType::f32, cpu<float>},
                      {DeviceKind::cpu, DType::f64, cpu<double>}}};
}

Output ctc_loss_gradient(Output dloss, Output logits, Output labels, Output time_sizes,
                         Output label_sizes, int64_t blank, Origin at) {
  return add_node({.op = "CtcLossGradient",
                   .inputs = {dloss, logits, labels, time_sizes, label_sizes},
                   .attrs = {{"blank", blank}}},
                  at);
}

}  // namespace troupe

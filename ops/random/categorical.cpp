// Categorical: y[i, s] = class j with probability softmax(logits)[i, j], independently for each
// draw.
//   logits: [batch, classes], f32 or f64; -infinity is a class that is never drawn
//   y: [batch, count], i64
//
// Draw s of row i uses number u = i * count + s of the stream (RandomNumbers of
// ops/random/random.hpp): it is the first class at which the sum of e^(logit - greatest logit),
// added up in f64 from class 0 on, exceeds u times the whole sum.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/random/random.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

// Context: InferContext or KernelContext.
template <class Context>
Shape drawn_shape_of(const Context& ctx, const Shape& logits) {
  const int64_t count = ctx.template attr<int64_t>("count");
  if (logits.ndim() != 2) throw ctx.error("wants logits [batch, classes], got ", logits);
  if (count < 0) throw ctx.error("wants a count of at least 0 draws for a row, got ", count);
  return {logits[0], count};
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  check_random_attrs(ctx);
  return {drawn_shape_of(ctx, ctx.input(0))};
}

// Checks a row; returns its greatest logit.
template <class T>
double check_row(const KernelContext& ctx, const T* logits, int64_t classes, int64_t row) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  T greatest = -kInfinity;
  bool good = true;
  for (int64_t j = 0; j < classes; ++j) {
    good = good && logits[j] < kInfinity;
    greatest = std::max(greatest, logits[j]);
  }
  if (!good || greatest == -kInfinity)
    throw ctx.error("row ", row, " is no distribution over its ", classes,
                    " classes: it wants a finite logit, and no NaN or +infinity");
  return static_cast<double>(greatest);
}

template <class T>
void cpu(KernelContext& ctx) {
  const Shape shape = drawn_shape_of(ctx, ctx.input(0).shape());
  RandomNumbers random(random_stream(ctx), shape.size());
  const int64_t rows = shape[0], count = shape[1], classes = ctx.input(0).dim(1);
  const T* x = ctx.input(0).data<T>();
  std::vector<double> greatest;
  for (int64_t row = 0; row < rows && count > 0; ++row)
    greatest.push_back(check_row(ctx, x + row * classes, classes, row));
  Tensor scratch = ctx.scratch(DType::f64, Shape{classes});
  double* sums = scratch.mutable_data<double>();
  int64_t* y = ctx.output(0, shape).template mutable_data<int64_t>();
  uint64_t drawn = 0;
  for (const double shift : greatest) {
    double sum = 0;
    for (int64_t j = 0; j < classes; ++j)
      sums[j] = sum += std::exp(static_cast<double>(x[j]) - shift);
    x += classes;
    // Rounding may make u * sum equal to the whole sum; then the draw is the last class of non-zero
    // probability.
    const double* last = std::lower_bound(sums, sums + classes, sum);
    for (int64_t s = 0; s < count; ++s) {
      const double part = random.unit(drawn++) * sum;
      *y++ = std::min<const double*>(std::upper_bound(sums, sums + classes, part), last) - sums;
    }
  }
}

}  // namespace

Op categorical_op() {
  return {.name = "Categorical",
          .inputs = {"logits", kPathInput},
          .outputs = {"y"},
          .attrs = with_random_attrs({{"count", AttrKind::integer}}),
          .infer_dtypes = infer_i64,
          .infer_shapes = infer_shapes,
          .no_gradient = "what is drawn is a number of a class",
          .kernels = float_kernels(cpu<float>, cpu<double>),
          .stateful = true,
          .precision = Precision::wide,
          .properties = &kRandom};
}

Output categorical(Output logits, int64_t count, int64_t seed, std::string_view name, Origin at) {
  return add_drawing({.op = "Categorical",
                      .inputs = {logits},
                      .attrs = {{"count", count}, {"seed", seed}},
                      .name = name},
                     at);
}

}  // namespace troupe

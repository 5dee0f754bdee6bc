// Rows of ONNX's reductions, scans, matrix products, and normalisations by a reduction.
#include <numeric>

#include "tests/conformance/mapping.hpp"

namespace troupe {
namespace {

using Reduce = Output (*)(Output, const ReduceOptions&);

MappedOp reduction(std::string op, std::string by, Reduce f) {
  return {op, by, [f](const NodeCall& c) {
            ReduceOptions options{c.integers("axes", 1), c.integer("keepdims", 1) != 0};
            if (options.axes.empty() && c.integer("noop_with_empty_axes", 0) != 0)
              return std::vector{identity(c.input(0))};
            return std::vector{f(c.input(0), options)};
          }};
}

// Before version 13, all dimensions from `axis` on count as one.
template <class F>
std::vector<Output> by_row(const NodeCall& c, const F& f) {
  const Output x = c.input(0);
  const int64_t ndim = x.shape().ndim();
  if (c.opset >= 13) {
    const int64_t axis = axis_of(c.integer("axis", -1), ndim);
    return {moved_axis(f(moved_axis(x, axis, ndim - 1)), ndim - 1, axis)};
  }
  const Shape shape = c.shape(x);
  const auto axis = static_cast<size_t>(axis_of(c.integer("axis", 1), ndim));
  const auto before = shape.dims().first(axis);
  const int64_t rows =
      std::accumulate(before.begin(), before.end(), int64_t{1}, std::multiplies<>());
  return {reshape_like(f(reshape(x, {rows, -1})), x)};
}

std::vector<Output> softmax_row(const NodeCall& c) {
  return by_row(c, [](Output x) { return softmax(x); });
}

std::vector<Output> log_softmax_row(const NodeCall& c) {
  return by_row(c, [](Output x) { return x - log_sum_exp(x, {.axes = {-1}, .keep_dims = true}); });
}

std::vector<Output> hardmax_row(const NodeCall& c) {
  return by_row(c, [&](Output x) {
    const Shape shape = c.shape(x);
    return one_hot(argmax(x), shape[shape.ndim() - 1], x.dtype());
  });
}

std::vector<Output> cum_sum_row(const NodeCall& c) {
  return {cumsum(c.input(0), {.axis = c.integers(c.input(1)).at(0),
                              .exclusive = c.integer("exclusive", 0) != 0,
                              .reverse = c.integer("reverse", 0) != 0})};
}

std::vector<Output> gemm_row(const NodeCall& c) {
  const double alpha = c.real("alpha", 1), beta = c.real("beta", 1);
  Output y = matmul(
      c.input(0), c.input(1),
      {.transpose_a = c.integer("transA", 0) != 0, .transpose_b = c.integer("transB", 0) != 0});
  if (alpha != 1) y = y * alpha;
  if (!c.has_input(2)) return {y};
  return {y + (beta == 1 ? c.input(2) : c.input(2) * beta)};
}

std::vector<Output> mean_variance_row(const NodeCall& c) {
  std::vector<int64_t> axes = c.integers("axes");
  if (axes.empty()) axes = {0, 2, 3};
  const Moments m = moments(c.input(0), {.axes = axes, .keep_dims = true});
  return {(c.input(0) - m.mean) / (sqrt(m.variance) + 1e-9)};
}

// dL/d(xs) of y. The node's inputs are the values of the xs.
std::vector<Output> gradient_row(const NodeCall& c) {
  const onnx::Attribute* xs = c.find("xs");
  std::vector<Output> at;
  for (int i = 0; i < xs->strings_size(); ++i) {
    at.push_back(c.named(xs->strings(i)));
    if (!at.back().is(c.input(i))) throw NotCovered{"a gradient at other values"};
  }
  return gradients({c.named(c.text("y", ""))}, at);
}

}  // namespace

std::vector<MappedOp> reduction_rows() {
  using O = ReduceOptions;
  return {
      reduction("ReduceL1", "norm", [](Output x, const O& o) { return norm(x, 1, o); }),
      reduction("ReduceL2", "norm", [](Output x, const O& o) { return norm(x, 2, o); }),
      reduction("ReduceLogSum", "reduce_sum, log",
                [](Output x, const O& o) { return log(reduce_sum(x, o)); }),
      reduction("ReduceLogSumExp", "log_sum_exp",
                [](Output x, const O& o) { return log_sum_exp(x, o); }),
      reduction("ReduceMax", "reduce_max", [](Output x, const O& o) { return reduce_max(x, o); }),
      reduction("ReduceMean", "reduce_mean",
                [](Output x, const O& o) { return reduce_mean(x, o); }),
      reduction("ReduceMin", "reduce_min", [](Output x, const O& o) { return reduce_min(x, o); }),
      reduction("ReduceProd", "reduce_prod",
                [](Output x, const O& o) { return reduce_prod(x, o); }),
      reduction("ReduceSum", "reduce_sum", [](Output x, const O& o) { return reduce_sum(x, o); }),
      reduction("ReduceSumSquare", "square, reduce_sum",
                [](Output x, const O& o) { return reduce_sum(square(x), o); }),
      {"CumSum", "cumsum", cum_sum_row},
      {"Det", "determinant",
       [](const NodeCall& c) { return std::vector{determinant(c.input(0))}; }},
      {"Einsum", "einsum",
       [](const NodeCall& c) { return std::vector{einsum(c.text("equation", ""), c.inputs())}; }},
      {"Gemm", "matmul", gemm_row},
      {"Gradient", "gradients", gradient_row},
      {"Hardmax", "argmax, one_hot", hardmax_row},
      {"LogSoftmax", "log_sum_exp", log_softmax_row},
      {"MatMul", "matmul",
       [](const NodeCall& c) { return std::vector{matmul(c.input(0), c.input(1))}; }},
      {"MeanVarianceNormalization", "moments", mean_variance_row},
      {"Softmax", "softmax", softmax_row},
  };
}

}  // namespace troupe

// MatMul: c = a * b, the product of two matrices, or of as many as the leading dimensions say.
//   a: [..., m, k], or [..., k, m] with transpose_a
//   b: [..., k, n], or [..., n, k] with transpose_b
//   c: [..., m, n]. Leading dimensions agree, or one side has none and stands for all.
// f32 runs in oneDNN; f64 and integers, which wrap around, in a loop of our own.
#include <cstring>

#include "ops/axes.hpp"
#include "ops/elementwise.hpp"
#include "ops/onednn.hpp"

namespace troupe {
namespace {

// Where one side's rows and columns stand.
struct Side {
  Shape shape;
  bool transposed;
  int leading() const { return shape.ndim() - 2; }
  int64_t rows() const { return shape[leading() + (transposed ? 1 : 0)]; }
  int64_t columns() const { return shape[leading() + (transposed ? 0 : 1)]; }
};

std::string written(const Side& side) {
  return to_string(side.shape) + (side.transposed ? " transposed" : "");
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  const Side a{ctx.input(0), ctx.attr<bool>("transpose_a")};
  const Side b{ctx.input(1), ctx.attr<bool>("transpose_b")};
  if (a.leading() < 0 || b.leading() < 0)
    throw ctx.error("wants two matrices, got ", a.shape, " and ", b.shape);
  if (!may_equal(a.columns(), b.rows()))
    throw ctx.error("inner sizes differ: ", written(a), " times ", written(b),
                    "; transpose one, or correct its shape");
  const Side& longer = a.leading() >= b.leading() ? a : b;
  std::vector<int64_t> c;
  for (int d = 0; d < longer.leading(); ++d) {
    const bool both = a.leading() > 0 && b.leading() > 0;
    if (both && (a.leading() != b.leading() || !may_equal(a.shape[d], b.shape[d])))
      throw ctx.error("leading dimensions differ: ", written(a), " times ", written(b),
                      "; make them equal, or leave them out on one side");
    c.push_back(both ? std::max(a.shape[d], b.shape[d]) : longer.shape[d]);
  }
  c.push_back(a.rows());
  c.push_back(b.columns());
  return {Shape(c)};
}

std::vector<int64_t> leading_axes(Output x) {
  std::vector<int64_t> axes;
  for (int d = 0; d + 2 < x.shape().ndim(); ++d) axes.push_back(d);
  return axes;
}

// a * b for an input without leading dimensions: summed over those of the other side.
Output summed_matmul(Output a, Output b, MatmulOptions options, Output input) {
  const auto width = [](Output x) { return x.shape()[x.shape().ndim() - 1]; };
  const bool has_leading = a.shape().ndim() > 2 || b.shape().ndim() > 2;
  if (!has_leading || input.shape().ndim() > 2) return matmul(a, b, options);
  // transpose(a) * b, summed: the same as one product of taller matrices.
  if (options.transpose_a && !options.transpose_b && width(a) > 0 && width(b) > 0 &&
      a.shape().ndim() == b.shape().ndim())
    return matmul(reshape(a, Shape{-1, width(a)}), reshape(b, Shape{-1, width(b)}), options);
  const Output products = matmul(a, b, options);
  return reduce_sum(products, {.axes = leading_axes(products)});
}

// Writing dc for dL/dc:  da = dc * transpose(b)  and  db = transpose(a) * dc; of a transposed
// input, the transpose.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output a = ctx.input(0), b = ctx.input(1), dc = ctx.output_gradient(0);
  const bool ta = ctx.attr<bool>("transpose_a"), tb = ctx.attr<bool>("transpose_b");
  const Output da = ta ? summed_matmul(b, dc, {.transpose_a = tb, .transpose_b = true}, a)
                       : summed_matmul(dc, b, {.transpose_b = !tb}, a);
  const Output db = tb ? summed_matmul(dc, a, {.transpose_a = true, .transpose_b = ta}, b)
                       : summed_matmul(a, dc, {.transpose_a = !ta}, b);
  return {da, db};
}

// What a kernel does: `batch` products of m x k by k x n. A side of batch 1 stands for all.
struct Sizes {
  int64_t batch_a = 1, batch_b = 1, batch = 1, m = 0, k = 0, n = 0;
};

// Requires: there is something to write.
Sizes sizes_of(const Side& a, const Side& b) {
  Sizes s{size_between(a.shape, 0, a.leading()),
          size_between(b.shape, 0, b.leading()),
          1,
          a.rows(),
          a.columns(),
          b.columns()};
  if (b.leading() == 0 && !a.transposed) {  // one product of a taller matrix
    s.m *= s.batch_a;
    s.batch_a = 1;
  }
  s.batch = b.leading() == 0 ? s.batch_a : s.batch_b;
  return s;
}

struct MatmulState final : KernelState {
  bool transpose_a = false, transpose_b = false;
  ShapeCache<std::array<int64_t, 5>, OneDnnPrimitive> primitives;
};

Sizes sizes_of(const KernelContext& ctx, const MatmulState& state) {
  return sizes_of(Side{ctx.input(0).shape(), state.transpose_a},
                  Side{ctx.input(1).shape(), state.transpose_b});
}

std::unique_ptr<OneDnnPrimitive> compile(const Sizes& s, bool transpose_a, bool transpose_b) {
  using dnnl::memory;
  const auto stacked_type = [](int64_t batch, int64_t rows, int64_t columns, bool transposed) {
    const memory::dims strides = transposed ? memory::dims{rows * columns, 1, rows}
                                            : memory::dims{rows * columns, columns, 1};
    return memory::desc({batch, rows, columns}, memory::data_type::f32, strides);
  };
  const auto type = [](int64_t rows, int64_t columns, bool transposed) {
    const memory::dims strides = transposed ? memory::dims{1, rows} : memory::dims{columns, 1};
    return memory::desc({rows, columns}, memory::data_type::f32, strides);
  };
  const bool plain = s.batch == 1;
  const auto a =
      plain ? type(s.m, s.k, transpose_a) : stacked_type(s.batch_a, s.m, s.k, transpose_a);
  const auto b =
      plain ? type(s.k, s.n, transpose_b) : stacked_type(s.batch_b, s.k, s.n, transpose_b);
  const auto c = plain ? type(s.m, s.n, false) : stacked_type(s.batch, s.m, s.n, false);
  const dnnl::matmul::primitive_desc desc({a, b, c}, onednn_attr(), onednn_engine());
  return std::make_unique<OneDnnPrimitive>(
      dnnl::matmul(desc), desc.scratchpad_desc(),
      std::vector<OneDnnPrimitive::Argument>{
          {DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
}

std::shared_ptr<const OneDnnPrimitive> primitive_for(const MatmulState& state, const Sizes& s) {
  return state.primitives.get({s.batch_a, s.batch_b, s.m, s.k, s.n},
                              [&] { return compile(s, state.transpose_a, state.transpose_b); });
}

std::unique_ptr<KernelState> prepare(const Node& node) {
  auto state = std::make_unique<MatmulState>();
  state->transpose_a = node.attr<bool>("transpose_a");
  state->transpose_b = node.attr<bool>("transpose_b");
  return state;
}

// Compiles at once when the shapes are known.
std::unique_ptr<KernelState> prepare_f32(const Node& node) {
  auto state = prepare(node);
  const auto& known = static_cast<const MatmulState&>(*state);
  const Shape &a = node.inputs[0].shape(), &b = node.inputs[1].shape();
  if (a.is_known() && b.is_known() && a.size() > 0 && b.size() > 0)
    primitive_for(known, sizes_of(Side{a, known.transpose_a}, Side{b, known.transpose_b}));
  return state;
}

void cpu_f32(KernelContext& ctx) {
  check_actual_shapes(ctx);
  Tensor& c = ctx.output();
  if (c.size() == 0) return;
  const auto& state = ctx.state<MatmulState>();
  const Sizes s = sizes_of(ctx, state);
  if (s.k == 0) {  // no products to sum
    std::memset(c.mutable_raw(), 0, static_cast<size_t>(c.byte_size()));
    return;
  }
  primitive_for(state, s)->execute(ctx, {ctx.input(0).raw(), ctx.input(1).raw(), c.raw()});
}

// c += a * b with rows of b in their order, so that the inner loop runs along rows of b and c.
// Blocks of b stay in cache.
template <class T>
void multiply_add(const T* a, int64_t a_row, int64_t a_column, const T* b, T* c, int64_t m,
                  int64_t k, int64_t n) {
  constexpr int64_t kRows = 64, kColumns = 512;  // a block of b: 256 KiB in f64
  for (int64_t k0 = 0; k0 < k; k0 += kRows)
    for (int64_t n0 = 0; n0 < n; n0 += kColumns)
      for (int64_t i = 0; i < m; ++i)
        for (int64_t kk = k0; kk < std::min(k, k0 + kRows); ++kk) {
          const wrapping<T> factor = static_cast<wrapping<T>>(a[i * a_row + kk * a_column]);
          const T* from = b + kk * n;
          T* to = c + i * n;
          for (int64_t j = n0; j < std::min(n, n0 + kColumns); ++j)
            to[j] = static_cast<T>(wrapping<T>(to[j]) + factor * wrapping<T>(from[j]));
        }
}

// b [n, k] -> [k, n]
template <class T>
void transpose_into(const T* b, T* to, int64_t k, int64_t n) {
  for (int64_t j = 0; j < n; ++j)
    for (int64_t kk = 0; kk < k; ++kk) to[kk * n + j] = b[j * k + kk];
}

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  Tensor& output = ctx.output();
  if (output.size() == 0) return;
  const auto& state = ctx.state<MatmulState>();
  const Sizes s = sizes_of(ctx, state);
  const T *a = ctx.input(0).data<T>(), *b = ctx.input(1).data<T>();
  T* c = output.mutable_data<T>();
  std::fill(c, c + output.size(), T{0});
  Tensor rows_of_b;
  if (state.transpose_b) rows_of_b = ctx.scratch(dtype_of<T>, Shape{s.k, s.n});
  for (int64_t i = 0; i < s.batch; ++i) {
    const T* one_a = s.batch_a > 1 ? a + i * s.m * s.k : a;
    const T* one_b = s.batch_b > 1 ? b + i * s.k * s.n : b;
    if (state.transpose_b) {
      T* rows = rows_of_b.mutable_data<T>();
      transpose_into(one_b, rows, s.k, s.n);
      one_b = rows;
    }
    multiply_add(one_a, state.transpose_a ? 1 : s.k, state.transpose_a ? s.m : 1, one_b,
                 c + i * s.m * s.n, s.m, s.k, s.n);
  }
}

}  // namespace

Op matmul_op() {
  return {.name = "MatMul",
          .inputs = {"a", "b"},
          .outputs = {"c"},
          .attrs = {{"transpose_a", AttrKind::boolean, false},
                    {"transpose_b", AttrKind::boolean, false}},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::f32, cpu_f32, nullptr, prepare_f32},
                      {DeviceKind::cpu, DType::f64, cpu<double>, nullptr, prepare},
                      {DeviceKind::cpu, DType::i32, cpu<int32_t>, nullptr, prepare},
                      {DeviceKind::cpu, DType::i64, cpu<int64_t>, nullptr, prepare}}};
}

Output matmul(Output a, Output b, MatmulOptions options, Origin at) {
  return add_node(
      {.op = "MatMul",
       .inputs = {a, b},
       .attrs = {{"transpose_a", options.transpose_a}, {"transpose_b", options.transpose_b}}},
      at);
}

}  // namespace troupe

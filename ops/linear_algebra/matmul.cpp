// MatMul: c = a * b, the product of two matrices, or of as many as the leading dimensions say.
//   a: [..., m, k], or [..., k, m] with transpose_a
//   b: [..., k, n], or [..., n, k] with transpose_b
//   c: [..., m, n]. Leading dimensions broadcast.
// f32 runs in oneDNN, and so does bf16, summed in f32, where the processor multiplies it (elsewhere
// it is widened, as f16 is: ops/support/narrow.hpp); f64 and integers, which wrap around, in a loop
// of our own. Products with a tiny dimension have loops of theirs (tiny_products.hpp).
#include <cmath>
#include <cstring>
#include <map>
#include <tuple>

#include "devices/kernel_call.hpp"
#include "ops/support/broadcast.hpp"
#include "ops/support/elementwise.hpp"
#include "ops/linear_algebra/matmul.hpp"
#include "ops/linear_algebra/tiny_products.hpp"
#include "ops/support/onednn.hpp"

namespace troupe {
namespace {

using Side = MatmulSide;
using Products = MatmulProducts;
using Sizes = Products::Sizes;

std::string written(const Side& side) {
  return to_string(side.shape) + (side.transposed ? " transposed" : "");
}

Shape leading_shape(const Side& side) {
  std::vector<int64_t> sizes;
  for (int d = 0; d < side.leading(); ++d) sizes.push_back(side.shape[d]);
  return Shape(sizes);
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
  const auto leading = broadcast(leading_shape(a), leading_shape(b));
  if (!leading)
    throw ctx.error("leading dimensions do not broadcast: ", written(a), " times ", written(b),
                    "; from the last one on, sizes must agree or one of them be 1");
  std::vector<int64_t> c;
  for (int d = 0; d < leading->ndim(); ++d) c.push_back((*leading)[d]);
  c.push_back(a.rows());
  c.push_back(b.columns());
  return {Shape(c)};
}

std::vector<int64_t> leading_axes(Output x) {
  std::vector<int64_t> axes;
  for (int d = 0; d + 2 < x.shape().ndim(); ++d) axes.push_back(d);
  return axes;
}

// a * b for an input that may have been repeated: summed over the leading dimensions that it does
// not have, or has as 1.
Output summed_matmul(Output a, Output b, MatmulOptions options, Output input) {
  const auto width = [](Output x) { return x.shape()[x.shape().ndim() - 1]; };
  const bool has_leading = a.shape().ndim() > 2 || b.shape().ndim() > 2;
  if (!has_leading) return matmul(a, b, options);
  if (input.shape().ndim() > 2) return undo_broadcast(matmul(a, b, options), input);
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

// A part of the result that one job makes: some rows and columns, or some of the products.
struct Block {
  int64_t batch_a = 1, batch_b = 1, rows = 0, columns = 0;
  bool operator<(const Block& o) const {
    return std::tie(batch_a, batch_b, rows, columns) <
           std::tie(o.batch_a, o.batch_b, o.rows, o.columns);
  }
};

// How a product is cut, by its sizes alone, as the cut is part of the numerics: oneDNN sums in
// another order for another number of columns. A job of 2^21 multiplications takes about 20 us.
//
// oneDNN copies b into its own order in every job, so that a job wants many rows for each column of
// b, the more when b is transposed. It wants 128 columns or more, and a result that stays in the
// cache for who goes on with it.
struct Cut {
  static constexpr int64_t kPartMax = 512;  // rows or columns of a job, where both are many
  static constexpr int64_t kRowsMin = 32, kRowsMinOfTransposed = 64, kColumnsMin = 128;
  static constexpr int64_t kParts = 8, kUnit = 16;  // of rows, at most; of rows and columns
  static constexpr double kJobMin = 1 << 21;
  Sizes s;
  int64_t batch = 1, rows = 0, columns = 0;  // of a job; the last one of a row of jobs has fewer

  Cut(const Sizes& sizes, bool transpose_b)
      : s(sizes), batch(sizes.batch), rows(s.m), columns(s.n) {
    const double one = work(s.m, s.k, s.n);
    if (s.batch > 1) {
      batch = std::min(s.batch, at_least(one));
      return;
    }
    if (one < 2 * kJobMin) return;
    const int64_t least = transpose_b ? kRowsMinOfTransposed : kRowsMin;
    if (transpose_b ? s.m < 2 * least && s.n >= 2 * kPartMax : s.n >= 2 * kPartMax) {
      const int64_t most = transpose_b ? 2 * kPartMax : kPartMax;
      columns = part(s.n, std::max<int64_t>(2, jobs_along(s.n, most)), at_least(work(s.m, s.k, 1)));
      if (!transpose_b && s.m > kPartMax) rows = part(s.m, jobs_along(s.m, kPartMax), 1);
    } else if (!transpose_b && s.m <= kColumnsMin && s.n >= 2 * kColumnsMin) {
      columns = part(s.n, s.n / kColumnsMin, at_least(work(s.m, s.k, 1)));
    } else if (s.m >= 2 * least) {
      rows = part(s.m, std::min(kParts, s.m / least), at_least(work(1, s.k, s.n)));
    }
  }
  // Multiplications as a real number: their count may be more than an integer holds.
  static double work(int64_t rows, int64_t inner, int64_t columns) {
    return static_cast<double>(rows) * static_cast<double>(inner) * static_cast<double>(columns);
  }
  // How many of `one` make a job.
  static int64_t at_least(double one) {
    return one >= kJobMin ? 1 : static_cast<int64_t>(std::ceil(kJobMin / one));
  }
  // The size of one of `parts` equal parts of `size`, rounded up to whole units; `least` or more.
  static int64_t part(int64_t size, int64_t parts, int64_t least) {
    const int64_t n = std::max(jobs_along(size, parts), least);
    return std::min(size, jobs_along(n, kUnit) * kUnit);
  }
  static int64_t jobs_along(int64_t size, int64_t part) { return (size + part - 1) / part; }
  // How many of all that it cuts make a job.
  int64_t least_of_whole() const {
    return at_least(static_cast<double>(s.batch) * work(s.m, s.k, s.n));
  }
  int64_t jobs() const {
    return jobs_along(s.batch, batch) * jobs_along(s.m, rows) * jobs_along(s.n, columns);
  }
  // Where job `job` begins, and what it makes.
  struct Job {
    int64_t first, row, column;
    Block block;
  };
  Job job(int64_t job) const {
    const int64_t across = jobs_along(s.n, columns), down = jobs_along(s.m, rows);
    Job out{job / (across * down) * batch, job / across % down * rows, job % across * columns, {}};
    const int64_t products = std::min(batch, s.batch - out.first);
    out.block = {s.batch_a > 1 ? products : 1, s.batch_b > 1 ? products : 1,
                 std::min(rows, s.m - out.row), std::min(columns, s.n - out.column)};
    return out;
  }
};

// The kernels that are compiled for one size of product.
struct MatmulPlan {
  MatmulPlan(const Sizes& sizes, bool transpose_b) : cut(sizes, transpose_b) {}
  const Cut cut;
  std::map<Block, std::unique_ptr<OneDnnPrimitive>> primitives;  // at most four
  int64_t scratch_bytes = 0;                                     // of a job; a multiple of 64
};

struct MatmulState final : KernelState {
  dnnl::memory::data_type type = dnnl::memory::data_type::f32;
  bool transpose_a = false, transpose_b = false;
  ShapeCache<std::array<int64_t, 5>, MatmulPlan> plans;
};

std::unique_ptr<OneDnnPrimitive> compile(const Sizes& s, const Block& block,
                                         const MatmulState& state) {
  using dnnl::memory;
  // rows x columns out of a matrix of `whole_rows` x `whole_columns`, or of several.
  const auto type = [&](int64_t batch, int64_t rows, int64_t columns, int64_t whole_rows,
                        int64_t whole_columns, bool transposed) {
    memory::dims sizes{rows, columns};
    memory::dims strides =
        transposed ? memory::dims{1, whole_rows} : memory::dims{whole_columns, 1};
    if (block.batch_a > 1 || block.batch_b > 1) {
      sizes.insert(sizes.begin(), batch);
      strides.insert(strides.begin(), whole_rows * whole_columns);
    }
    return memory::desc(sizes, state.type, strides);
  };
  const auto a = type(block.batch_a, block.rows, s.k, s.m, s.k, state.transpose_a);
  const auto b = type(block.batch_b, s.k, block.columns, s.k, s.n, state.transpose_b);
  const auto c =
      type(std::max(block.batch_a, block.batch_b), block.rows, block.columns, s.m, s.n, false);
  const dnnl::matmul::primitive_desc desc({a, b, c}, onednn_attr(), onednn_engine());
  return std::make_unique<OneDnnPrimitive>(
      dnnl::matmul(desc), desc.scratchpad_desc(),
      std::vector<OneDnnPrimitive::Argument>{
          {DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
}

std::shared_ptr<const MatmulPlan> plan_for(const MatmulState& state, const Sizes& s) {
  return state.plans.get({s.batch_a, s.batch_b, s.m, s.k, s.n}, [&] {
    auto plan = std::make_unique<MatmulPlan>(s, state.transpose_b);
    for (int64_t i = 0; i < plan->cut.jobs(); ++i) {
      const Block block = plan->cut.job(i).block;
      auto& primitive = plan->primitives[block];
      if (primitive) continue;
      primitive = compile(s, block, state);
      plan->scratch_bytes =
          std::max(plan->scratch_bytes, (primitive->scratch_bytes() + 63) / 64 * 64);
    }
    return plan;
  });
}

std::unique_ptr<MatmulState> make_state(const Node& node) {
  auto state = std::make_unique<MatmulState>();
  state->transpose_a = node.attr<bool>("transpose_a");
  state->transpose_b = node.attr<bool>("transpose_b");
  return state;
}

std::unique_ptr<KernelState> prepare(const Node& node) { return make_state(node); }

// Compiles at once when the shapes are known.
template <class T>
std::unique_ptr<KernelState> prepare_onednn(const Node& node) {
  auto state = make_state(node);
  if (is_half_v<T>) state->type = dnnl::memory::data_type::bf16;
  const MatmulState& known = *state;
  const Shape &a = node.inputs[0].shape(), &b = node.inputs[1].shape();
  if (a.is_known() && b.is_known() && a.size() > 0 && b.size() > 0) {
    const Products products = products_of({a, known.transpose_a}, {b, known.transpose_b});
    if constexpr (std::is_same_v<T, float>)
      if (are_tiny<T>(products)) return state;
    plan_for(known, products.each);
  }
  return state;
}

// The job's part of the result is there.
void finish(const KernelContext& ctx, const Sizes& s, const Cut::Job& job, int64_t at_c) {
  const Block& block = job.block;
  if (block.columns == s.n)
    return KernelCall::of(ctx).finish(at_c,
                                      std::max(block.batch_a, block.batch_b) * block.rows * s.n);
  for (int64_t row = 0; row < block.rows; ++row)
    KernelCall::of(ctx).finish(at_c + row * s.n, block.columns);
}

template <class T>
void cpu_onednn(KernelContext& ctx) {
  check_actual_shapes(ctx);
  Tensor& output = ctx.output();
  if (output.size() == 0) return;
  const auto& state = ctx.state<MatmulState>();
  const Side of_a{ctx.input(0).shape(), state.transpose_a},
      of_b{ctx.input(1).shape(), state.transpose_b};
  if (of_a.columns() == 0) {  // no products to sum
    std::memset(output.mutable_raw(), 0, static_cast<size_t>(output.byte_size()));
    return KernelCall::of(ctx).finish(0, output.size());
  }
  const Products products = products_of(of_a, of_b);
  if constexpr (!is_half_v<T>)
    if (are_tiny<T>(products))
      return multiply_tiny<T>(ctx, products, state.transpose_a, state.transpose_b);
  const Sizes& s = products.each;
  const auto plan = plan_for(state, s);
  const Cut& cut = plan->cut;
  // Parts of the products in a row, of which a job makes some where one alone is too few. Products
  // that are cut come one after the other: their jobs suffice, and so does their scratch memory.
  const int64_t at_once = cut.jobs() > 1 ? 1 : products.count;
  const int64_t parts = at_once * cut.jobs();
  const int64_t parts_of_job = products.count > 1 && cut.jobs() == 1 ? cut.least_of_whole() : 1;
  const int64_t jobs = Cut::jobs_along(parts, parts_of_job);
  Tensor scratch;
  if (plan->scratch_bytes > 0) scratch = ctx.scratch(DType::u8, Shape{plan->scratch_bytes * jobs});
  uint8_t* const scratch_at = scratch.defined() ? scratch.mutable_data<uint8_t>() : nullptr;
  const T *a = ctx.input(0).data<T>(), *b = ctx.input(1).data<T>();
  T* c = output.mutable_data<T>();
  const auto make = [&](int64_t part, uint8_t* scratch_of_job) {
    const int64_t number = part / cut.jobs();
    const auto [from_a, from_b] = products.at(number);
    const Cut::Job job = cut.job(part % cut.jobs());
    const int64_t at_a = from_a + (s.batch_a > 1 ? job.first * s.m * s.k : 0) +
                         job.row * (state.transpose_a ? 1 : s.k),
                  at_b = from_b + (s.batch_b > 1 ? job.first * s.k * s.n : 0) +
                         job.column * (state.transpose_b ? s.k : 1),
                  at_c = (number * s.batch + job.first) * s.m * s.n + job.row * s.n + job.column;
    plan->primitives.at(job.block)->execute(ctx, {a + at_a, b + at_b, c + at_c}, scratch_of_job);
    finish(ctx, s, job, at_c);
  };
  for (int64_t first = 0; first < products.count; first += at_once)
    ctx.parallel(jobs, [&](int64_t i) {
      uint8_t* const own = scratch_at ? scratch_at + i * plan->scratch_bytes : nullptr;
      const int64_t end = std::min(parts, (i + 1) * parts_of_job);
      for (int64_t part = i * parts_of_job; part < end; ++part)
        make(first * cut.jobs() + part, own);
    });
}

// c += a * b with rows of b in their order, so that the inner loop runs along rows of b and c.
// Blocks of b stay in cache. Each element of c is summed in the order of k.
struct MultiplyLoop {
  template <class T>
  static void run(const T* a, int64_t a_row, int64_t a_column, const T* b, T* c, int64_t m,
                  int64_t k, int64_t n) {
    constexpr int64_t kRows = 64, kColumns = 512;  // a block of b: 256 KiB in f64
    for (int64_t k0 = 0; k0 < k; k0 += kRows)
      for (int64_t n0 = 0; n0 < n; n0 += kColumns)
        for (int64_t i = 0; i < m; ++i)
          for (int64_t kk = k0; kk < std::min(k, k0 + kRows); ++kk) {
            const wrapping<T> factor = static_cast<wrapping<T>>(a[i * a_row + kk * a_column]);
            const T* from = b + kk * n;
            T* to = c + i * n;
            const int64_t end = std::min(n, n0 + kColumns);
            TROUPE_INDEPENDENT
            for (int64_t j = n0; j < end; ++j)
              to[j] = static_cast<T>(wrapping<T>(to[j]) + factor * wrapping<T>(from[j]));
          }
  }
};

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
  const Side of_a{ctx.input(0).shape(), state.transpose_a},
      of_b{ctx.input(1).shape(), state.transpose_b};
  T* c = output.mutable_data<T>();
  const bool sums = of_a.columns() > 0;
  const Products products = sums ? products_of(of_a, of_b) : Products{};
  if constexpr (std::is_same_v<T, double>)
    if (sums && are_tiny<T>(products))
      return multiply_tiny<T>(ctx, products, state.transpose_a, state.transpose_b);
  std::fill(c, c + output.size(), T{0});
  if (!sums) return KernelCall::of(ctx).finish(0, output.size());
  const Sizes& s = products.each;
  const T *a = ctx.input(0).data<T>(), *b = ctx.input(1).data<T>();
  Tensor rows_of_b;
  if (state.transpose_b) rows_of_b = ctx.scratch(dtype_of<T>, Shape{s.k, s.n});
  for (int64_t i = 0; i < products.count * s.batch; ++i) {
    const auto [from_a, from_b] = products.at(i / s.batch);
    const T* one_a = a + from_a + (s.batch_a > 1 ? i % s.batch * s.m * s.k : 0);
    const T* one_b = b + from_b + (s.batch_b > 1 ? i % s.batch * s.k * s.n : 0);
    if (state.transpose_b) {
      T* rows = rows_of_b.mutable_data<T>();
      transpose_into(one_b, rows, s.k, s.n);
      one_b = rows;
    }
    in_isa<MultiplyLoop>(one_a, state.transpose_a ? int64_t{1} : s.k,
                         state.transpose_a ? s.m : int64_t{1}, one_b, c + i * s.m * s.n, s.m, s.k,
                         s.n);
  }
  KernelCall::of(ctx).finish(0, output.size());
}

template <class T>
Kernel kernel() {
  return {.dtype = dtype_of<T>, .run = cpu<T>, .prepare = prepare, .finishes = true};
}

template <class T>
Kernel onednn_kernel() {
  return {
      .dtype = dtype_of<T>, .run = cpu_onednn<T>, .prepare = prepare_onednn<T>, .finishes = true};
}

std::vector<Kernel> kernels() {
  std::vector<Kernel> all = {onednn_kernel<float>(), kernel<double>(), kernel<int32_t>(),
                             kernel<int64_t>()};
  if (multiplies_bf16()) all.push_back(onednn_kernel<BFloat16>());
  return all;
}

// A product and a sum for each element of c and each of the k it is summed over.
int64_t flops(const Node& node, const std::vector<Shape>& in, const std::vector<Shape>& out) {
  const Side a{in[0], node.attr<bool>("transpose_a")};
  return 2 * out[0].size() * a.columns();
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
          .kernels = kernels(),
          .flops = flops,
          .precision = Precision::low};
}

Output matmul(Output a, Output b, MatmulOptions options, Origin at) {
  return add_node(
      {.op = "MatMul",
       .inputs = {a, b},
       .attrs = {{"transpose_a", options.transpose_a}, {"transpose_b", options.transpose_b}}},
      at);
}

}  // namespace troupe

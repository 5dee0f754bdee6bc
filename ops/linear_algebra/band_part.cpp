// BandPart: y = matrices with the elements on diagonals low to high alone, zeros elsewhere.
//   x, y: [..., m, n]   y[..., i, j] = x[..., i, j] where low <= j - i <= high, else 0
#include <limits>

#include "ops/support/axes.hpp"
#include "ops/support/node.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
constexpr int64_t kHighest = std::numeric_limits<int64_t>::max();

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  if (ctx.input(0).ndim() < 2) throw ctx.error("wants matrices [..., m, n], got ", ctx.input(0));
  return {ctx.input(0)};
}

Output add_band(Output x, int64_t low, int64_t high, Origin at) {
  return add_node({.op = "BandPart", .inputs = {x}, .attrs = {{"low", low}, {"high", high}}}, at);
}

// Writing dy for dL/dy:  dx = the same diagonals of dy.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {add_band(ctx.output_gradient(0), ctx.attr<int64_t>("low"), ctx.attr<int64_t>("high"),
                   Origin::here())};
}

void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Shape shape = x.shape();
  const int64_t size = x.size(), bytes = size_of(x.dtype());
  const char* from = static_cast<const char*>(x.raw());
  char* to = static_cast<char*>(ctx.output_in_place().mutable_raw());
  if (size == 0) return;
  const int64_t m = shape[shape.ndim() - 2], n = shape[shape.ndim() - 1];
  // Diagonals that are there, or one beyond them.
  const int64_t low = std::clamp(ctx.attr<int64_t>("low"), -m, n);
  const int64_t high = std::clamp(ctx.attr<int64_t>("high"), -m, n);
  for (int64_t row = 0; row < size / n; ++row, from += n * bytes, to += n * bytes) {
    const int64_t i = row % m;
    const int64_t begin = std::clamp<int64_t>(i + low, 0, n);
    const int64_t end = std::clamp<int64_t>(i + high + 1, begin, n);
    std::memset(to, 0, static_cast<size_t>(begin * bytes));
    if (to != from)
      std::memcpy(to + begin * bytes, from + begin * bytes,
                  static_cast<size_t>((end - begin) * bytes));
    std::memset(to + end * bytes, 0, static_cast<size_t>((n - end) * bytes));
  }
}

}  // namespace

Op band_part_op() {
  return {.name = "BandPart",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {{"low", AttrKind::integer}, {"high", AttrKind::integer}},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}},
          .in_place = true};
}

Output band_part(Output x, int64_t lower, int64_t upper, Origin at) {
  return add_band(x, lower < 0 ? kLowest : -lower, upper < 0 ? kHighest : upper, at);
}
Output tril(Output x, int64_t diagonal, Origin at) { return add_band(x, kLowest, diagonal, at); }
Output triu(Output x, int64_t diagonal, Origin at) { return add_band(x, diagonal, kHighest, at); }

}  // namespace troupe

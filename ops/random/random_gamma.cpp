// RandomGamma: y has the gamma distribution of shape alpha and scale 1, density y^(alpha - 1) *
// e^-y / Gamma(alpha), independently for each element. For scale s, use s * y. For a small alpha, y
// may underflow to 0.
//   alpha, y: any shape, f32 or f64; every alpha is positive and finite
//
// By rejection (Marsaglia and Tsang, ACM TOMS 26, 2000): d = alpha - 1/3, v = (1 + z / sqrt(9 *
// d))^3 with z normal; d * v is accepted if v > 0 and log(u) < z^2 / 2 + d - d * v + d * log(v).
// For alpha below 1, this is done for alpha + 1, and the result is multiplied by w^(1 / alpha).
// Bits (graph/base/philox.hpp defines blocks): attempt a < 128 of element i uses blocks i + 2 * a *
// 2^40 and i + (2 * a + 1) * 2^40. The first block gives z = sqrt(-2 * log(1 - p)) * cos(2 * pi *
// q), with p from words 0 (low) and 1 (high), q from words 2 and 3; the second gives 1 - u and 1 -
// w in the same way. At least 95 % of attempts succeed: 128 failures have probability 10^-166, and
// then the result is d.
#include <cmath>

#include "ops/random/random.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

constexpr uint64_t kAttempts = 128;
constexpr int kBlockShift = 40;  // limits a tensor to 2^40 elements

// Context: InferContext or KernelContext.
template <class Context>
void check_size(const Context& ctx, const Shape& alpha) {
  if (alpha.is_known() && alpha.size() > int64_t{1} << kBlockShift)
    throw ctx.error("draws at most 2^40 numbers, got ", alpha);
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  check_random_attrs(ctx);
  check_size(ctx, ctx.input(0));
  return infer_same_shape(ctx);
}

double draw(const RandomStream& random, uint64_t i, double alpha) {
  constexpr double kTwoPi = 6.283185307179586;
  const bool small = alpha < 1;
  const double d = (small ? alpha + 1 : alpha) - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (uint64_t attempt = 0; attempt < kAttempts; ++attempt) {
    const auto first = random.block(i + (2 * attempt << kBlockShift));
    const auto second = random.block(i + ((2 * attempt + 1) << kBlockShift));
    const double z = std::sqrt(-2 * std::log(1 - unit_double(first[0], first[1]))) *
                     std::cos(kTwoPi * unit_double(first[2], first[3]));
    const double root = 1 + c * z, v = root * root * root;
    if (v <= 0) continue;
    const double u = 1 - unit_double(second[0], second[1]);
    if (std::log(u) >= z * z / 2 + d - d * v + d * std::log(v)) continue;
    if (!small) return d * v;
    return d * v * std::pow(1 - unit_double(second[2], second[3]), 1 / alpha);
  }
  return d;
}

template <class T>
void cpu(KernelContext& ctx) {
  const RandomStream random = random_stream(ctx);
  check_size(ctx, ctx.input(0).shape());
  const T* alpha = ctx.input(0).data<T>();
  const int64_t n = ctx.input(0).size();
  for (int64_t i = 0; i < n; ++i)
    if (!(alpha[i] > 0 && std::isfinite(alpha[i])))
      throw ctx.error("wants positive, finite shapes alpha, got ", alpha[i], " (number ", i, " of ",
                      n, ")");
  T* y = ctx.output().mutable_data<T>();
  for (int64_t i = 0; i < n; ++i)
    y[i] = static_cast<T>(draw(random, static_cast<uint64_t>(i), static_cast<double>(alpha[i])));
}

}  // namespace

Op random_gamma_op() {
  return {.name = "RandomGamma",
          .inputs = {"alpha", kPathInput},
          .outputs = {"y"},
          .attrs = with_random_attrs({}),
          .infer_dtypes = infer_dtype_of_first,
          .infer_shapes = infer_shapes,
          .no_gradient = "its slope in alpha has no closed form",
          .kernels = float_kernels(cpu<float>, cpu<double>),
          .stateful = true,
          .properties = &kRandom};
}

Output random_gamma(Output alpha, int64_t seed, std::string_view name, Origin at) {
  return add_drawing(
      {.op = "RandomGamma", .inputs = {alpha}, .attrs = {{"seed", seed}}, .name = name}, at);
}

}  // namespace troupe

// RandomNormal: y = mean + stddev * z, z standard normal.
//
// z comes from the ratio of two uniform numbers (Kinderman and Monahan, ACM TOMS 3, 1977): with u
// in (0, 1] and v in [-1/2, 1/2), z = sqrt(8 / e) * v / u is accepted if z^2 <= -4 * log(u). The
// bits of z are plain arithmetic; a mathematics library only takes part in the decision. Bits
// (ops/philox.hpp says what a block is): attempt a of element i is block i + a * 2^40; words 0
// (low) and 1 (high) give 1 - u; words 2 and 3 give v + 1/2; the first attempt that is accepted is
// taken. Everything is computed in f64.
#include <cmath>

#include "ops/random.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

constexpr uint64_t kAttemptsMax =
    255;  // 73 % of all attempts succeed: missing all has a chance of 10^-145
constexpr int kAttemptShift = 40;    // so a tensor has at most 2^40 elements
constexpr double kFarthest = 12.13;  // sqrt(-4 * log(2^-53)): no |z| is greater

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const Shape& shape = drawn_shape(ctx);
  if (shape.size() > int64_t{1} << kAttemptShift)
    throw ctx.error("draws at most 2^40 numbers, got ", shape);
  const double mean = ctx.attr<double>("mean"), stddev = ctx.attr<double>("stddev");
  const double farthest = std::abs(mean) + kFarthest * stddev;
  const DType dtype = ctx.attr<DType>("dtype");
  if (!(stddev >= 0) || !(dtype == DType::f32 ? std::isfinite(static_cast<float>(farthest))
                                              : std::isfinite(farthest)))
    throw ctx.error("wants a mean and a stddev of at least 0 whose numbers, up to ", farthest,
                    ", are finite as ", dtype, ", got ", mean, " and ", stddev);
  return {shape};
}

double draw(const RandomStream& random, uint64_t i) {
  constexpr double kScale = 1.7155277699214135;  // sqrt(8 / e)
  for (uint64_t attempt = 0; attempt < kAttemptsMax; ++attempt) {
    const auto words = random.block(i + (attempt << kAttemptShift));
    const double u = 1 - unit_double(words[0], words[1]);
    const double z = kScale * (unit_double(words[2], words[3]) - 0.5) / u;
    if (z * z <= -4 * std::log(u)) return z;
  }
  return 0;
}

template <class T>
void cpu(KernelContext& ctx) {
  const RandomStream random = random_stream(ctx);
  const double mean = ctx.attr<double>("mean"), stddev = ctx.attr<double>("stddev");
  Tensor& output = ctx.output();
  T* y = output.mutable_data<T>();
  const int64_t n = output.size();
  for (int64_t i = 0; i < n; ++i)
    y[i] = static_cast<T>(mean + stddev * draw(random, static_cast<uint64_t>(i)));
}

}  // namespace

Op random_normal_op() {
  return drawing_op("RandomNormal",
                    {{"mean", AttrKind::real, 0.0}, {"stddev", AttrKind::real, 1.0}}, infer_shapes,
                    {DeviceKind::cpu, DType::f32, cpu<float>},
                    {DeviceKind::cpu, DType::f64, cpu<double>});
}

Output random_normal(Graph& graph, Shape shape, double mean, double stddev, int64_t seed,
                     DType dtype, std::string_view name, Origin at) {
  return graph.add(
      {.op = "RandomNormal",
       .attrs =
           {{"shape", shape}, {"mean", mean}, {"stddev", stddev}, {"seed", seed}, {"dtype", dtype}},
       .name = name},
      at);
}

}  // namespace troupe

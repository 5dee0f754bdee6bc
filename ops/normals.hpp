// What RandomNormal and TruncatedNormal share: y = mean + stddev * z, where z is drawn by attempts
// until one is accepted, the same on every machine.
//
// Draw is a struct with a number that no |z| exceeds, kFarthest, and with
//   static std::optional<double> attempt(const std::array<uint32_t, 4>& words);
// z, unless these bits are not accepted. Attempt a of element i has block i + a * 2^40
// (ops/philox.hpp says what a block is). Everything is computed in f64.
#pragma once

#include <array>
#include <cmath>
#include <optional>

#include "ops/random.hpp"
#include "troupe/ops.hpp"

namespace troupe {

constexpr int kAttemptShift = 40;  // so a tensor has at most 2^40 elements
constexpr uint64_t kAttemptsMax = 255;

template <class Draw>
std::vector<Shape> infer_normal(const InferContext& ctx) {
  const Shape& shape = drawn_shape(ctx);
  if (shape.size() > int64_t{1} << kAttemptShift)
    throw ctx.error("draws at most 2^40 numbers, got ", shape);
  const double mean = ctx.attr<double>("mean"), stddev = ctx.attr<double>("stddev");
  const double farthest = std::abs(mean) + Draw::kFarthest * stddev;
  const DType dtype = ctx.attr<DType>("dtype");
  if (!(stddev >= 0) || !(dtype == DType::f32 ? std::isfinite(static_cast<float>(farthest))
                                              : std::isfinite(farthest)))
    throw ctx.error("wants a mean and a stddev of at least 0 whose numbers, up to ", farthest,
                    ", are finite as ", dtype, ", got ", mean, " and ", stddev);
  return {shape};
}

// 0 if no attempt is accepted.
template <class Draw>
double draw_normal(const RandomStream& random, uint64_t i) {
  for (uint64_t attempt = 0; attempt < kAttemptsMax; ++attempt)
    if (const auto z = Draw::attempt(random.block(i + (attempt << kAttemptShift)))) return *z;
  return 0;
}

template <class Draw, class T>
void run_normal(KernelContext& ctx) {
  const RandomStream random = random_stream(ctx);
  const double mean = ctx.attr<double>("mean"), stddev = ctx.attr<double>("stddev");
  Tensor& output = ctx.output();
  T* y = output.mutable_data<T>();
  const int64_t n = output.size();
  for (int64_t i = 0; i < n; ++i)
    y[i] = static_cast<T>(mean + stddev * draw_normal<Draw>(random, static_cast<uint64_t>(i)));
}

template <class Draw>
Op normal_op(std::string name) {
  return drawing_op(std::move(name),
                    {{"mean", AttrKind::real, 0.0}, {"stddev", AttrKind::real, 1.0}},
                    infer_normal<Draw>, {DeviceKind::cpu, DType::f32, run_normal<Draw, float>},
                    {DeviceKind::cpu, DType::f64, run_normal<Draw, double>});
}

}  // namespace troupe

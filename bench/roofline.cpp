// Measures the peak multiply-adds and the memory bandwidth of one core.
#include "bench/roofline.hpp"

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "bench/bench.hpp"
#include "devices/threads/isa.hpp"

namespace troupe::bench {
namespace {

constexpr int kChains = 12;  // independent sums, enough to hide the latency of a multiply-add
constexpr int64_t kRounds = 200'000;

volatile float sink;  // keeps the results from being optimised away

__attribute__((target("avx512f"))) int64_t multiply_add_avx512() {
  __m512 sums[kChains];
  for (auto& s : sums) s = _mm512_set1_ps(1);
  const __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(1e-3f);
  for (int64_t r = 0; r < kRounds; ++r)
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_fmadd_ps(sums[i], a, b);
  for (const auto& s : sums) sink = _mm512_cvtss_f32(s);
  return kRounds * kChains * 16 * 2;
}

__attribute__((target("avx2,fma"))) int64_t multiply_add_avx2() {
  __m256 sums[kChains];
  for (auto& s : sums) s = _mm256_set1_ps(1);
  const __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(1e-3f);
  for (int64_t r = 0; r < kRounds; ++r)
    for (int i = 0; i < kChains; ++i) sums[i] = _mm256_fmadd_ps(sums[i], a, b);
  for (const auto& s : sums) sink = _mm256_cvtss_f32(s);
  return kRounds * kChains * 8 * 2;
}

int64_t multiply_add_sse2() {
  __m128 sums[kChains];
  for (auto& s : sums) s = _mm_set1_ps(1);
  const __m128 a = _mm_set1_ps(0.999f), b = _mm_set1_ps(1e-3f);
  for (int64_t r = 0; r < kRounds; ++r)
    for (int i = 0; i < kChains; ++i) sums[i] = _mm_add_ps(_mm_mul_ps(sums[i], a), b);
  for (const auto& s : sums) sink = _mm_cvtss_f32(s);
  return kRounds * kChains * 4 * 2;
}

struct AddLoop {
  static void run(const float* a, const float* b, float* c, int64_t n) {
    TROUPE_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) c[i] = a[i] + b[i];
  }
};

double measure_flops() {
  double best = 0;
  for (int r = 0; r < 20; ++r) {
    const auto begin = std::chrono::steady_clock::now();
    const int64_t flop = isa() == Isa::avx512 ? multiply_add_avx512()
                         : isa() == Isa::avx2 ? multiply_add_avx2()
                                              : multiply_add_sse2();
    best = std::max(best, static_cast<double>(flop) / seconds_since(begin));
  }
  return best;
}

double measure_bandwidth(int64_t working_set) {
  const int64_t n = std::max<int64_t>(working_set / 3 / static_cast<int64_t>(sizeof(float)), 16);
  std::vector<float> a(static_cast<size_t>(n), 1.0f), b = a, c = a;
  const int64_t times = std::max<int64_t>(1, (8 << 20) / working_set);
  double best = 0;
  for (int r = 0; r < 12; ++r) {
    const auto begin = std::chrono::steady_clock::now();
    for (int64_t t = 0; t < times; ++t) in_isa<AddLoop>(a.data(), b.data(), c.data(), n);
    best = std::max(best, static_cast<double>(12 * n * times) / seconds_since(begin));
  }
  sink = c[0];
  return best;
}

}  // namespace

Roofline::Roofline() : flops_(measure_flops()) {}

double Roofline::bandwidth(int64_t working_set) {
  const auto rounded = static_cast<int64_t>(
      std::bit_ceil(static_cast<uint64_t>(std::clamp<int64_t>(working_set, 1 << 12, 1 << 28))));
  const auto known = bandwidth_.find(rounded);
  if (known != bandwidth_.end()) return known->second;
  return bandwidth_[rounded] = measure_bandwidth(rounded);
}

double Roofline::seconds(double flop, double bytes) {
  return std::max(flop / flops_, bytes / bandwidth(static_cast<int64_t>(bytes)));
}

}  // namespace troupe::bench

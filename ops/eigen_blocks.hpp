// Functions like exp, vectorised by Eigen. Slow to compile: for the ops' .cpp files alone.
#pragma once

#include <Eigen/Core>
#include <cstring>

#include "ops/elementwise.hpp"

namespace troupe {

// y = f(x) in blocks of a fixed length, the last one padded: an element's value does not depend on
// where it stands. f takes and gives an Eigen array expression. y may be x.
template <class T, class F>
void map_blocks(const T* x, T* y, int64_t n, F f) {
  constexpr int kLength = 16;
  using Block = Eigen::Array<T, kLength, 1>;
  int64_t i = 0;
  for (; i + kLength <= n; i += kLength) {
    const Block in = Eigen::Map<const Block>(x + i);
    Eigen::Map<Block>(y + i) = f(in);
  }
  if (i == n) return;
  const size_t rest = static_cast<size_t>(n - i) * sizeof(T);
  Block in = Block::Ones();
  std::memcpy(in.data(), x + i, rest);
  const Block out = f(in);
  std::memcpy(y + i, out.data(), rest);
}

// F::apply takes and gives an array expression.
template <class F, class T>
void run_blocks(KernelContext& ctx) {
  const T* x = ctx.input(0).data<T>();
  const int64_t n = ctx.input(0).size();
  T* y = ctx.output_in_place().template mutable_data<T>();
  map_blocks(x, y, n, [](const auto& block) { return F::apply(block); });
}

template <class F>
std::vector<Kernel> block_kernels() {
  return {{DeviceKind::cpu, DType::f32, run_blocks<F, float>},
          {DeviceKind::cpu, DType::f64, run_blocks<F, double>}};
}

}  // namespace troupe

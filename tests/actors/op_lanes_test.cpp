// One op on several lanes: large products, convolutions and element-wise ops are cut by their
// shapes alone, so a step has the same bits with one thread and with several.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/support/evaluate.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/convolutions.hpp"
#include "troupe/session.hpp"

namespace troupe {
namespace {

// Any numbers in [-1, 1] that differ.
Tensor waves(const Shape& shape, double seed) {
  Tensor out = Tensor::empty(DType::f32, shape);
  for (int64_t i = 0; i < out.size(); ++i)
    out.mutable_data<float>()[i] =
        static_cast<float>(std::sin(static_cast<double>(i) * 0.7 + seed * 10));
  return out;
}

// Convolutions and pools with every option, in f64 too: our own loops.
void append_windows(Graph& g, std::vector<Output>& ops) {
  const ConvolutionOptions apart{.strides = {2, 1}, .dilations = {1, 2}, .groups = 4};
  const PoolWindow window{.size = {3}, .strides = {2}, .padding = Padding::same};
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Output images = cast(constant(g, waves({11, 16, 16, 24}, 0.7)), dtype);
    const Output filter = cast(constant(g, waves({3, 3, 6, 40}, 0.8)), dtype);
    const Output y = convolution(images, filter, apart), pooled = max_pool(images, window);
    const Output mean = average_pool(images, window);
    ops.insert(ops.end(),
               {y, convolution_input_gradient(y, filter, images, apart),
                convolution_filter_gradient(y, images, filter, apart),
                convolution_transpose(y, filter, apart), pooled,
                max_pool_gradient(pooled, images, window), max_pool_select(images, images, window),
                mean, average_pool_gradient(mean, images, window)});
  }
}

// Each of a size that is cut, with parts that are left over at the end.
std::vector<Output> large_ops(Graph& g) {
  const auto input = [&](const Shape& shape, double seed) {
    return constant(g, waves(shape, seed));
  };
  const Output a = input({130, 300}, 0.1), b = input({300, 1100}, 0.2);
  const Output wide = matmul(a, b), tall = matmul(b, a, {.transpose_a = true, .transpose_b = true});
  const Output back = matmul(wide, b, {.transpose_b = true});
  const Output few = matmul(input({4100, 200}, 0.3), input({200, 20}, 0.4));
  const Output stacked = matmul(input({9, 64, 200}, 0.5), input({9, 200, 80}, 0.6));
  const Output images = input({11, 16, 16, 24}, 0.7), filter = input({3, 3, 24, 40}, 0.8);
  const Output y = conv2d(images, filter), dx = conv2d_input_gradient(y, filter, images),
               df = conv2d_filter_gradient(y, images, filter);
  const Output long_one = input({150'001}, 0.9);
  std::vector<Output> ops = {wide, tall, back, few, stacked, y, dx, df};
  ops.insert(ops.end(), {tanh(long_one), long_one + long_one, long_one * 3});
  append_windows(g, ops);
  return ops;
}

}  // namespace

TEST_CASE("large ops have the same bits with one thread and with several") {
  std::vector<Tensor> expected;
  for (const int threads : {1, 2, 4}) {
    CAPTURE(threads);
    Graph graph;
    const std::vector<Output> outputs = large_ops(graph);
    Session session = Session::local(graph, {.threads = threads});
    for (int round = 0; round < 5; ++round) {
      const std::vector<Tensor> got = session.run(outputs);
      if (expected.empty()) expected = got;
      for (size_t i = 0; i < got.size(); ++i) {
        CAPTURE(i);
        CHECK(same_bits(got[i], expected[i]));
      }
    }
  }
}

TEST_CASE("products and convolutions that are cut are those of the plain loops") {
  Graph graph;
  const std::vector<Output> outputs = large_ops(graph);
  const std::vector<Tensor> got = Session::local(graph, {.threads = 2}).run(outputs);
  // The same in f64, which no library computes.
  const auto number = [](const Tensor& t, int64_t i) {
    return static_cast<double>(t.data<float>()[i]);
  };
  const auto sum = [&](const Tensor& a, int64_t at_a, int64_t step_a, const Tensor& b, int64_t at_b,
                       int64_t step_b, int64_t n) {
    double s = 0;
    for (int64_t i = 0; i < n; ++i)
      s += number(a, at_a + i * step_a) * number(b, at_b + i * step_b);
    return s;
  };
  const Tensor a = waves({130, 300}, 0.1), b = waves({300, 1100}, 0.2);
  double worst = 0;
  for (int64_t i = 0; i < 130; i += 3)
    for (int64_t j = 0; j < 1100; j += 7) {
      const double one = sum(a, i * 300, 1, b, j, 1100, 300);
      worst = std::max(worst, std::abs(number(got[0], i * 1100 + j) - one));
      worst = std::max(worst, std::abs(number(got[1], j * 130 + i) - one));
    }
  CHECK(worst < 1e-4);
  const Tensor c = waves({4100, 200}, 0.3), d = waves({200, 20}, 0.4);
  worst = 0;
  for (int64_t i = 0; i < 4100; i += 11)
    for (int64_t j = 0; j < 20; ++j)
      worst =
          std::max(worst, std::abs(number(got[3], i * 20 + j) - sum(c, i * 200, 1, d, j, 20, 200)));
  CHECK(worst < 1e-4);
  const Tensor e = waves({9, 64, 200}, 0.5), f = waves({9, 200, 80}, 0.6);
  worst = 0;
  for (int64_t p = 0; p < 9; ++p)
    for (int64_t i = 0; i < 64; i += 5)
      for (int64_t j = 0; j < 80; j += 3)
        worst =
            std::max(worst, std::abs(number(got[4], (p * 64 + i) * 80 + j) -
                                     sum(e, (p * 64 + i) * 200, 1, f, p * 200 * 80 + j, 80, 200)));
  CHECK(worst < 1e-4);
}

}  // namespace troupe

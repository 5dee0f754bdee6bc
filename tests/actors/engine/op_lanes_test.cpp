// One op on several lanes: large products, convolutions, reductions, norms, recurrent layers,
// attention, random numbers and element-wise ops are cut by their shapes alone, so a step has the
// same bits with one thread and with several.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "ops/gradients.hpp"
#include "tests/support/evaluate.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/networks.hpp"
#include "troupe/session.hpp"

namespace troupe {
namespace {

// Any numbers in [-size, size] that differ.
Tensor waves(const Shape& shape, double seed, double size = 1) {
  Tensor out = Tensor::empty(DType::f32, shape);
  for (int64_t i = 0; i < out.size(); ++i)
    out.mutable_data<float>()[i] =
        static_cast<float>(size * std::sin(static_cast<double>(i) * 0.7 + seed * 10));
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
  const Output pixels = input({1, 1, 24, 70}, 0.85), mixed = conv2d(images, pixels);
  const Output narrow = matmul(input({64, 300}, 0.86), input({300, 600}, 0.87));
  const Output joined = concat({images, mixed, images}, 3);
  const Output long_one = input({150'001}, 0.9);
  std::vector<Output> ops = {wide,
                             tall,
                             back,
                             few,
                             stacked,
                             y,
                             dx,
                             df,
                             narrow,
                             mixed,
                             joined,
                             conv2d_input_gradient(mixed, pixels, images),
                             conv2d_filter_gradient(mixed, images, pixels)};
  for (const Output& piece : concat_gradient(joined, {images, mixed, images}, 3))
    ops.push_back(piece);
  ops.insert(ops.end(), {tanh(long_one), long_one + long_one, long_one * 3});
  append_windows(g, ops);
  return ops;
}

struct Sum {
  Shape shape;
  std::vector<int64_t> axes;
};
// Few long rows, many short ones, long and wide columns, the middle, all, two axes apart.
const std::vector<Sum> sums = {
    {{3, 200'003}, {1}},     {{40'001, 7}, {1}},       {{700, 3'001}, {1}},    {{100'003, 10}, {0}},
    {{400, 1'100}, {0}},     {{3, 20'001, 20}, {1}},   {{70, 17, 1'000}, {1}}, {{150'001}, {}},
    {{50, 30, 100}, {0, 2}}, {{5'000, 17, 3}, {0, 1}}, {{9, 600, 600}, {1}}};

std::vector<Output> large_reductions(Graph& g) {
  std::vector<Output> all;
  double seed = 0;
  for (const Sum& sum : sums)
    all.push_back(reduce_sum(constant(g, waves(sum.shape, seed += 0.1)), {.axes = sum.axes}));
  return all;
}

std::vector<Output> large_norms(Graph& g) {
  const Output x = constant(g, waves({900, 300}, 0.1)), dy = constant(g, waves({900, 300}, 0.2));
  const Output gamma = constant(g, waves({300}, 0.3)), beta = constant(g, waves({300}, 0.4));
  Tensor numbers = Tensor::empty(DType::i32, Shape{900});
  for (int32_t i = 0; i < 900; ++i) numbers.mutable_data<int32_t>()[i] = i * 7 % 300;
  const Output labels = constant(g, numbers), loss = softmax_cross_entropy(x, labels);
  const Output high = reshape(x, {27'000, 10}), few = constant(g, waves({10}, 0.5));
  const BatchNorm normal = batch_norm(high, few, few);
  std::vector<Output> all = {softmax(x),
                             loss,
                             layer_norm(x, gamma, beta),
                             rms_norm(x, gamma),
                             log_sum_exp(x, {.axes = {1}}),
                             log_sum_exp(x, {.axes = {0}}),
                             normal.y,
                             normal.mean,
                             normal.variance};
  for (const Output& y : {all[1], all[2], all[3]}) {
    const Output weight = y.shape().ndim() == 1 ? reshape(slice(dy, {0, 0}, {-1, 1}), {-1}) : dy;
    for (const Output& d : gradients({y}, {x, gamma, beta}, {weight}))
      if (d.defined()) all.push_back(d);
  }
  for (const Output& d : gradients({normal.y}, {high, few})) all.push_back(d);
  return all;
}

std::vector<Output> large_copies(Graph& g) {
  const Output flat = constant(g, waves({700, 900}, 0.1));
  const Output deep = constant(g, waves({3, 500, 211}, 0.2));
  return {transpose(flat),
          transpose(deep, {1, 2, 0}),
          transpose(deep, {0, 2, 1}),
          slice(flat, {1, 3}, {-1, 800}),
          reverse(deep, {1}),
          space_to_depth(constant(g, waves({2, 200, 300, 5}, 0.3)), 2)};
}

std::vector<Output> everything(Graph& g) {
  std::vector<Output> all = large_ops(g);
  for (const auto& more : {large_reductions(g), large_norms(g), large_copies(g)})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

// With their gradients, of sizes that are cut into jobs, some rows over.
std::vector<Output> sequence_layers(Graph& g) {
  const auto input = [&](const Shape& shape, double seed, double size = 1) {
    return constant(g, waves(shape, seed, size));
  };
  const Output x = input({6, 37, 24}, 0.1), h = input({37, 70}, 0.2);
  Tensor lengths = Tensor::empty(DType::i64, {37});
  for (int64_t i = 0; i < 37; ++i) lengths.mutable_data<int64_t>()[i] = i % 7;
  const Output given = constant(g, lengths);
  const Output w = input({24, 280}, 0.4, 0.2), u = input({70, 280}, 0.5, 0.2);
  const Output w3 = input({24, 210}, 0.7, 0.2), u3 = input({70, 210}, 0.8, 0.2);
  const Output b = input({280}, 0.6), b3 = input({210}, 0.9);
  const Lstm one = lstm(x, h, h, w, u, b, {.lengths = given, .reverse = true});
  const Gru two = gru(x, h, w3, u3, b3, b3);
  const Gru three = gru(x, h, w3, u3, b3, b3, {.lengths = given, .reset_after = false});
  const Output q = input({2, 5, 70, 24}, 0.1), k = input({2, 5, 70, 24}, 0.2),
               v = input({2, 5, 70, 24}, 0.3);
  const Output seen = scaled_dot_product_attention(q, k, v, {.causal = true});
  std::vector<Output> all = {one.y, one.h, one.c, two.y, two.h, three.y, three.h, seen};
  for (const Output& slope : gradients(all, {x, h, w, u, b, w3, u3, b3, q, k, v}))
    all.push_back(slope);
  return all;
}

// Several jobs, and rows that are left over.
std::vector<Output> rows_and_random_numbers(Graph& g) {
  constexpr int64_t kRows = 777, kClasses = 301;
  const Output x = constant(g, waves({kRows, kClasses}, 0, 5));
  Tensor classes = Tensor::empty(DType::i64, {kRows});
  for (int64_t i = 0; i < kRows; ++i) classes.mutable_data<int64_t>()[i] = i * 7 % kClasses;
  const Output labels = constant(g, classes), loss = softmax_cross_entropy(x, labels);
  const Output gamma = fill(g, {kClasses}, 2), beta = fill(g, {kClasses}, 1);
  const BatchNorm normed = batch_norm(x, gamma, beta);
  const NormGradient d = batch_norm_gradient(x, x, gamma, normed.mean, normed.variance);
  return {softmax(x),
          loss,
          softmax_cross_entropy_gradient(loss, x, labels),
          normed.y,
          normed.mean,
          normed.variance,
          d.dx,
          d.dgamma,
          d.dbeta,
          truncated_normal(g, {100'003}, 0, 1, 5, DType::f32, "drawn"),
          random_normal(g, {100'003}, 0, 1, 5, DType::f32, "drawn_too")};
}

void check_on_lanes(std::vector<Output> (*build)(Graph&)) {
  std::vector<Tensor> expected;
  for (const int threads : {1, 2, 4}) {
    CAPTURE(threads);
    Graph graph;
    const std::vector<Output> outputs = build(graph);
    // A pass would compute what constants make before the first step.
    Session session = Session::local(graph, {.threads = threads, .passes = false});
    for (int round = 0; round < 5; ++round) {
      const std::vector<Tensor> got = session.run(outputs, {}, {.step = 3});
      if (expected.empty()) expected = got;
      for (size_t i = 0; i < got.size(); ++i) {
        CAPTURE(i);
        CHECK(same_bits(got[i], expected[i]));
      }
    }
  }
}

}  // namespace

TEST_CASE("large ops have the same bits with one thread and with several" *
          doctest::test_suite("slow")) {
  check_on_lanes(everything);
}

TEST_CASE("recurrent layers and attention have the same bits with one thread and with several") {
  check_on_lanes(sequence_layers);
}

TEST_CASE("rows and random numbers have the same bits with one thread and with several") {
  check_on_lanes(rows_and_random_numbers);
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

TEST_CASE("copies that are cut put every element into its place") {
  Graph graph;
  const std::vector<Tensor> got =
      Session::local(graph, {.threads = 2, .passes = false}).run(large_copies(graph));
  const Tensor flat = waves({700, 900}, 0.1), deep = waves({3, 500, 211}, 0.2);
  const auto at = [](const Tensor& t, int64_t i, int64_t j, int64_t k = 0) {
    const int64_t inner = t.ndim() == 3 ? t.dim(2) : 1;
    return t.data<float>()[(i * t.dim(1) + j) * inner + k];
  };
  int64_t wrong = 0;
  for (int64_t i = 0; i < 700; ++i)
    for (int64_t j = 0; j < 900; ++j) {
      wrong += at(got[0], j, i) != at(flat, i, j);
      if (i >= 1 && j >= 3 && j < 803) wrong += at(got[3], i - 1, j - 3) != at(flat, i, j);
    }
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 500; ++j)
      for (int64_t k = 0; k < 211; ++k) {
        wrong += at(got[1], j, k, i) != at(deep, i, j, k);
        wrong += at(got[2], i, k, j) != at(deep, i, j, k);
        wrong += at(got[4], i, 499 - j, k) != at(deep, i, j, k);
      }
  CHECK(wrong == 0);
}

TEST_CASE("reductions that are cut are those of the plain loops") {
  Graph graph;
  const std::vector<Tensor> got =
      Session::local(graph, {.threads = 2, .passes = false}).run(large_reductions(graph));
  double seed = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    CAPTURE(i);
    const Shape& shape = sums[i].shape;
    const Tensor x = waves(shape, seed += 0.1);
    std::vector<double> expected(static_cast<size_t>(got[i].size()));
    const std::set<int64_t> axes(sums[i].axes.begin(), sums[i].axes.end());
    for (int64_t at = 0; at < x.size(); ++at) {
      int64_t left = at, to = 0, step = 1;  // dimensions from the last one on
      for (int d = shape.ndim(); d-- > 0; left /= shape[d]) {
        if (axes.empty() || axes.count(d)) continue;
        to += left % shape[d] * step;
        step *= shape[d];
      }
      expected[static_cast<size_t>(to)] += static_cast<double>(x.data<float>()[at]);
    }
    double worst = 0;
    for (int64_t j = 0; j < got[i].size(); ++j)
      worst = std::max(worst, std::abs(static_cast<double>(got[i].data<float>()[j]) -
                                       expected[static_cast<size_t>(j)]));
    CHECK(worst < 1e-3);
  }
}

}  // namespace troupe

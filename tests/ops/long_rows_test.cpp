// Rows and columns of many lengths in the loops that take several elements at a time: extremes and
// their places, sums, softmax and its losses, e^x below 0.
#include "ops/support/exponential.hpp"

#include <algorithm>
#include <numeric>

#include "ops/gradients.hpp"
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

// Lengths around those at which the loops switch.
constexpr int64_t kLengths[] = {1,  2,   15,  16,  17,  31,  32,  33,  63,  64,   65,
                                95, 127, 128, 255, 256, 257, 300, 511, 512, 1000, 70'001};

// One row of n numbers for each of `places`, with `value` at that place.
Tensor rows_with(int64_t n, const std::vector<int64_t>& places, double value) {
  const auto count = static_cast<int64_t>(places.size());
  Tensor x = Tensor::empty(DType::f64, {count, n});
  const Tensor row = waves({n}, 1);
  for (int64_t r = 0; r < count; ++r) {
    double* const to = x.mutable_data<double>() + r * n;
    std::copy_n(row.data<double>(), n, to);
    to[places[static_cast<size_t>(r)]] = value;
  }
  return x;
}

// The first place, the last, and some between.
std::vector<int64_t> places_in(int64_t n) { return {0, n / 3, n / 2, n - 1}; }

std::vector<int64_t> of_row(const Tensor& indices) {
  const auto values = indices.values<int64_t>();
  return {values.begin(), values.end()};
}

void check_place(const Tensor& x, bool greatest, const std::vector<int64_t>& places,
                 const Tensor& extreme) {
  Graph graph;
  const Output in = constant(graph, x);
  const ReduceOptions last{.axes = {1}};
  CHECK(same_bits(evaluate(greatest ? reduce_max(in, last) : reduce_min(in, last)), extreme));
  CHECK(of_row(evaluate(greatest ? argmax(in, 1) : argmin(in, 1))) == places);
}

// One row in f64: -log(softmax(x)[label]), and softmax(x).
std::vector<double> softmax_of(const float* x, int64_t n, int64_t label, double& loss) {
  const double max = *std::max_element(x, x + n);
  std::vector<double> p(static_cast<size_t>(n));
  for (int64_t j = 0; j < n; ++j) p[static_cast<size_t>(j)] = std::exp(x[j] - max);
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& value : p) value /= sum;
  loss = std::log(sum) + max - static_cast<double>(x[label]);
  return p;
}

}  // namespace

TEST_CASE("the greatest and the least are found wherever they stand in a row of any length") {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64})
    for (const int64_t n : kLengths) {
      CAPTURE(to_string(dtype));
      CAPTURE(n);
      const std::vector<int64_t> places = places_in(n);
      const auto rows = [&](double value) {
        Tensor x = rows_with(n, places, value);
        if (!is_floating(dtype))
          for (int64_t i = 0; i < x.size(); ++i)
            x.mutable_data<double>()[i] = std::round(x.data<double>()[i]);
        return converted(x, dtype);
      };
      check_place(rows(3), true, places, converted(full({4}, 3), dtype));
      check_place(rows(-3), false, places, converted(full({4}, -3), dtype));
    }
}

TEST_CASE("NaN is the extreme of its row, wherever it stands, and the first one is chosen") {
  for (const int64_t n : kLengths) {
    CAPTURE(n);
    const std::vector<int64_t> places = places_in(n);
    Tensor x = rows_with(n, places, NAN);
    for (int64_t r = 0; r < 4; ++r) {  // a later NaN, and infinities on both sides
      double* const row = x.mutable_data<double>() + r * n;
      const int64_t place = places[static_cast<size_t>(r)];
      if (place > 0) row[place - 1] = r % 2 ? INFINITY : -INFINITY;
      if (place + 2 < n) row[place + 1] = r % 2 ? -INFINITY : INFINITY;
      if (place + 2 < n) row[n - 1] = NAN;
    }
    for (const DType dtype : {DType::f32, DType::f64}) {
      Graph graph;
      const Output in = constant(graph, converted(x, dtype));
      for (const Output& y : {reduce_max(in, {.axes = {1}}), reduce_min(in, {.axes = {1}})}) {
        const Tensor extremes = converted(evaluate(y), DType::f64);
        for (const double value : extremes.values<double>()) CHECK(std::isnan(value));
      }
      CHECK(of_row(evaluate(argmax(in, 1))) == places);
      CHECK(of_row(evaluate(argmin(in, 1))) == places);
    }
  }
}

TEST_CASE("of equals the first one is chosen, however far apart they are") {
  for (const int64_t n : kLengths) {
    CAPTURE(n);
    for (const int64_t first : places_in(n)) {
      Tensor x = rows_with(n, {first}, 3);
      for (int64_t i = first; i < n; i += 1 + n / 5) x.mutable_data<double>()[i] = 3;
      x.mutable_data<double>()[n - 1] = 3;
      Graph graph;
      CHECK(of_row(evaluate(argmax(constant(graph, f32(x)), 1))) == std::vector{first});
      CHECK(of_row(evaluate(argmin(negate(constant(graph, x)), 1))) == std::vector{first});
    }
  }
}

TEST_CASE("columns of a wide table have the bits that they have in a narrow one") {
  for (const Shape& shape : {Shape{700, 2100}, Shape{20, 4097}, Shape{129, 2048}}) {
    CAPTURE(shape);
    Graph graph;
    const Output x = constant(graph, f32(waves(shape, 2)));
    for (const int64_t column : {int64_t{0}, shape[1] / 2, shape[1] - 100}) {
      const Output narrow = slice(x, {0, column}, {-1, 100});
      const ReduceOptions first{.axes = {0}};
      CHECK(same_bits(evaluate(slice(reduce_sum(x, first), {column}, {100})),
                      evaluate(reduce_sum(narrow, first))));
      CHECK(same_bits(evaluate(slice(reduce_max(x, first), {column}, {100})),
                      evaluate(reduce_max(narrow, first))));
    }
  }
}

TEST_CASE("sums of rows of any length are those of f64, rounded a few times") {
  for (const int64_t n : kLengths) {
    CAPTURE(n);
    const Tensor x = f32(waves({3, n}, 4));
    Graph graph;
    const Tensor got = evaluate(reduce_sum(constant(graph, x), {.axes = {1}}));
    for (int64_t r = 0; r < 3; ++r) {
      const float* const row = x.data<float>() + r * n;
      const double sum = std::accumulate(row, row + n, 0.0);
      CHECK(std::abs(got.data<float>()[r] - sum) <= 2e-6 * std::sqrt(static_cast<double>(n)));
    }
  }
}

TEST_CASE("e^x below 0 is within 1.3 units in the last place, denormal numbers included") {
  double worst = 0;
  for (float x = -104.5f; x <= 0; x += 1.7e-4f) {
    const double exact = std::exp(static_cast<double>(x));
    const double unit = std::ldexp(1.0, std::max(-149, std::ilogb(exact) - 23));
    worst = std::max(worst, std::abs(math::exp_of_negative(x) - exact) / unit);
  }
  CHECK(worst <= 1.3);
  CHECK(math::exp_of_negative(0.0f) == 1);
  CHECK(math::exp_of_negative(-0.0f) == 1);
  CHECK(math::exp_of_negative(1e-6f) == doctest::Approx(1).epsilon(3e-6));  // rounding above 0
  for (const float x : {-110.0f, -1e30f, -INFINITY}) CHECK(math::exp_of_negative(x) == 0);
  for (const char* payload : {"", "1", "511", "0x3fffff"})
    for (const float sign : {1.0f, -1.0f})
      CHECK(std::isnan(math::exp_of_negative(std::copysign(std::nanf(payload), sign))));
}

TEST_CASE("softmax and its losses of rows of any length are those of f64") {
  for (const int64_t n : kLengths) {
    CAPTURE(n);
    const int64_t rows = 3, labels[] = {0, n / 2, n - 1};
    Tensor x = f32(waves({rows, n}, 5));
    for (int64_t i = 0; i < x.size(); ++i) x.mutable_data<float>()[i] *= 30;
    Graph graph;
    const Output logits = constant(graph, x);
    const Output places =
        constant(graph, Tensor::of<int64_t>({labels[0], labels[1], labels[2]}, {rows}));
    const Output dloss = constant(graph, f32(vector({1, -0.5, 2})));
    const Tensor p = evaluate(softmax(logits));
    const Tensor loss = evaluate(softmax_cross_entropy(logits, places));
    const Tensor slopes = evaluate(softmax_cross_entropy_gradient(dloss, logits, places));
    for (int64_t r = 0; r < rows; ++r) {
      double exact = 0;
      const std::vector<double> share = softmax_of(x.data<float>() + r * n, n, labels[r], exact);
      CHECK(loss.data<float>()[r] == doctest::Approx(exact).epsilon(2e-6));
      double worst = 0;
      for (int64_t j = 0; j < n; ++j) {
        const double s = share[static_cast<size_t>(j)], d = r == 0 ? 1 : r == 1 ? -0.5 : 2;
        worst = std::max(worst, std::abs(p.data<float>()[r * n + j] - s) / (1e-6 * s + 1e-30));
        const double slope = d * (s - (j == labels[r] ? 1 : 0));
        worst = std::max(worst, std::abs(slopes.data<float>()[r * n + j] - slope) / 1e-6);
      }
      CHECK(worst <= 3);  // x - max is rounded: at 60, half a unit is 2e-6
    }
  }
}

TEST_CASE("one NaN makes its row of softmax and its loss NaN, and no other") {
  for (const int64_t n : {1, 10, 64, 100, 1000}) {
    CAPTURE(n);
    Tensor x = f32(waves({2, n}, 6));
    x.mutable_data<float>()[n - 1] = NAN;
    Graph graph;
    const Output logits = constant(graph, x), labels = constant(graph, i64(zeros({2})));
    const Tensor p = evaluate(softmax(logits));
    const Tensor loss = evaluate(softmax_cross_entropy(logits, labels));
    for (int64_t j = 0; j < n; ++j) {
      CHECK(std::isnan(p.data<float>()[j]));
      CHECK(std::isfinite(p.data<float>()[n + j]));
    }
    CHECK(std::isnan(loss.data<float>()[0]));
    CHECK(std::isfinite(loss.data<float>()[1]));
  }
}

TEST_CASE("a bias is added to each of many rows, as by a broadcast") {
  for (const Shape& shape : {Shape{700, 300}, Shape{3, 1}, Shape{70'001, 3}, Shape{0, 5}}) {
    Graph graph;
    const Output x = constant(graph, f32(waves(shape, 8)));
    const Output bias = constant(graph, f32(waves({shape[1]}, 9)));
    CHECK(same_bits(evaluate(bias_add(x, bias)), evaluate(add(x, bias))));
  }
}

TEST_CASE("gradients of large reductions are broadcast in jobs, each element where it belongs") {
  Graph graph;
  const Output like = constant(graph, f32(zeros({70, 40, 100})));
  for (const std::vector<int64_t>& axes :
       std::vector<std::vector<int64_t>>{{0}, {1}, {2}, {0, 2}, {0, 1}, {1, 2}, {0, 1, 2}}) {
    const ReduceOptions options{.axes = axes, .keep_dims = true};
    const Output dy = constant(
        graph, evaluate(reduce_sum(like + constant(graph, f32(waves({70, 40, 100}, 7))), options)));
    double count = 1;
    for (const int64_t axis : axes)
      count *= static_cast<double>(like.shape()[static_cast<int>(axis)]);
    CHECK(same_bits(evaluate(reduce_gradient(dy, like, options)),
                    evaluate(broadcast_like(dy, like))));
    CHECK(same_bits(evaluate(reduce_gradient(dy, like, options, /*mean=*/true)),
                    evaluate(broadcast_like(dy / count, like))));
  }
}

}  // namespace troupe

// Initial values of parameters: their spread by the published formulas, and that they depend only
// on the documented inputs.

#include <algorithm>

#include "tests/support/parameters.hpp"
#include "tests/support/refusal.hpp"

namespace troupe {
namespace {

// The initial values of a parameter "w" of a model.
Tensor first(const Shape& shape, const nn::Initializer& initializer, int64_t seed = 1,
             const char* tower = "", DType dtype = DType::f64) {
  Graph graph;
  const auto scope = graph.scope({.name = tower});
  nn::Model model(graph, {.seed = seed});
  const Output w = model.parameter("w", shape, initializer, dtype);
  return feed_parameters(graph).at(w);
}

struct Spread {
  double mean = 0, variance = 0, most = 0;
};
Spread spread_of(const Tensor& x) {
  Spread out;
  const auto n = static_cast<double>(x.size());
  for (double v : x.values<double>()) {
    out.mean += v / n;
    out.most = std::max(out.most, std::abs(v));
  }
  for (double v : x.values<double>()) out.variance += (v - out.mean) * (v - out.mean) / n;
  return out;
}

}  // namespace

TEST_CASE("random first values have the variance of the published formula") {
  struct Case {
    const char* name;
    nn::Initializer initializer;
    Shape shape;
    double variance;
    bool uniform;
  };
  const Shape matrix = {300, 100}, filters = {3, 3, 40, 80};  // fans 360 and 720
  const Case cases[] = {{"Glorot uniform", nn::glorot_uniform(), matrix, 2.0 / 400, true},
                        {"Glorot normal", nn::glorot_normal(), matrix, 2.0 / 400, false},
                        {"Glorot with a gain", nn::glorot_uniform(3), matrix, 9 * 2.0 / 400, true},
                        {"He uniform", nn::he_uniform(), matrix, 2.0 / 300, true},
                        {"He normal", nn::he_normal(), matrix, 2.0 / 300, false},
                        {"LeCun uniform", nn::lecun_uniform(), matrix, 1.0 / 300, true},
                        {"LeCun normal", nn::lecun_normal(), matrix, 1.0 / 300, false},
                        {"filters, Glorot", nn::glorot_uniform(), filters, 2.0 / 1080, true},
                        {"filters, He", nn::he_normal(), filters, 2.0 / 360, false},
                        {"a vector", nn::glorot_normal(), {20'000}, 1.0 / 20'000, false},
                        {"uniform", nn::uniform(-0.05, 0.05), matrix, 0.1 * 0.1 / 12, true},
                        {"normal", nn::normal(0, 0.5), matrix, 0.25, false},
                        // The variance of a normal number, given that it lies within two standard
                        // deviations.
                        {"truncated", nn::truncated_normal(0, 1), matrix, 0.7737412, false}};
  for (const Case& c : cases) {
    CAPTURE(c.name);
    const Spread s = spread_of(first(c.shape, c.initializer));
    CHECK(s.variance == doctest::Approx(c.variance).epsilon(0.03));
    CHECK(std::abs(s.mean) < 4 * std::sqrt(c.variance / 20'000));
    if (c.uniform) CHECK(s.most <= std::sqrt(3 * c.variance) * (1 + 1e-9));
    if (c.uniform) CHECK(s.most > 0.99 * std::sqrt(3 * c.variance));
  }
  CHECK(spread_of(first({100, 100}, nn::normal(2, 0.1))).mean == doctest::Approx(2).epsilon(0.01));
}

TEST_CASE("constants are what they say, and random ones without a spread their middle") {
  for (const auto& [initializer, value] : {std::pair(nn::zeros(), 0.0),
                                           {nn::ones(), 1.0},
                                           {nn::constant(-2.5), -2.5},
                                           {nn::uniform(3, 3), 3.0},
                                           {nn::normal(4, 0), 4.0}}) {
    const Tensor w = first({2, 3}, initializer);
    for (double v : w.values<double>()) CHECK(v == value);
  }
  CHECK(first({0, 3}, nn::glorot_uniform()).size() == 0);
}

TEST_CASE("an orthogonal matrix has columns or rows of length gain at right angles") {
  for (const Shape& shape : {Shape{5, 5}, Shape{7, 3}, Shape{3, 7}, Shape{2, 2, 3, 4}}) {
    CAPTURE(shape);
    const double gain = 1.5;
    const Tensor w = first(shape, nn::orthogonal(gain));
    CHECK(w.shape() == shape);
    const int64_t columns = shape[shape.ndim() - 1], rows = w.size() / columns;
    const auto at = [&](int64_t r, int64_t c) { return w.data<double>()[r * columns + c]; };
    const bool wide = columns > rows;
    const int64_t vectors = wide ? rows : columns, length = wide ? columns : rows;
    for (int64_t a = 0; a < vectors; ++a)
      for (int64_t b = 0; b < vectors; ++b) {
        double product = 0;
        for (int64_t i = 0; i < length; ++i)
          product += wide ? at(a, i) * at(b, i) : at(i, a) * at(i, b);
        CHECK(product == doctest::Approx(a == b ? gain * gain : 0).epsilon(1e-12));
      }
  }
}

TEST_CASE("first values depend on seed and name alone, not on towers") {
  const nn::Initializer random = nn::he_normal();
  const Tensor w = first({4, 4}, random);
  CHECK(same_bits(w, first({4, 4}, random, 1, "tower1")));
  CHECK(!same_bits(w, first({4, 4}, random, 2)));
  CHECK(first({4, 4}, random, 1, "", DType::f32).dtype() == DType::f32);
  Graph graph;
  nn::Model model(graph);
  const Output a = model.parameter("a", {4, 4}, random), b = model.parameter("b", {4, 4}, random);
  const FedValues values = feed_parameters(graph);
  CHECK(!same_bits(values.at(a), values.at(b)));
}

TEST_CASE("first values that cannot be are refused, naming the parameter") {
  const auto refused = [](const Shape& shape, const nn::Initializer& initializer, DType dtype,
                          const char* text) {
    check_invalid([&] { first(shape, initializer, 1, "", dtype); }, text,
                  "nn_initializers_test.cpp");
  };
  refused({2}, nn::zeros(), DType::i32, "wants f32 or f64, got i32");
  refused({-1, 2}, nn::zeros(), DType::f32, "parameter w has the shape [-1, 2]");
  refused({2}, nn::orthogonal(), DType::f32, "an orthogonal w wants two dimensions or more");
  refused({2}, nn::normal(0, -1), DType::f32,
          "the first values of w lie around 0 with a spread of");
  refused({2}, nn::constant(NAN), DType::f32, "wants finite numbers");
}

}  // namespace troupe

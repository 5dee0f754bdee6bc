// MaxPool of two-dimensional images, its gradient, and the selection that differentiates the
// gradient.

#include <algorithm>
#include <random>

#include "ops/gradients.hpp"
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs attrs(int64_t window, int64_t stride, bool same = false) {
  return {{"window", Ints{window}},
          {"strides", Ints{stride}},
          {"padding", std::string(same ? "same" : "valid")}};
}

const Table table("MaxPool takes the greatest of each window, and gradients follow it", [] {
  const Tensor x = values({1, 4, 4, 1}, {1, 5, 2, 0, 3, 4, 8, 7, -1, -2, 0, 0, -3, -4, 0, -5});
  const Tensor dy = values({1, 2, 2, 1}, {1, 2, 3, 4});
  return table_of(
      "MaxPool",
      {Case("2x2", {x}, {values({1, 2, 2, 1}, {5, 8, -1, 0})}).rough(),
       Case("2x2, all different", {values({1, 2, 2, 2}, {1, -1, 3, -3, 2, 0, -4, 5})},
            {values({1, 1, 1, 2}, {3, 5})}),
       Case("windows that overlap", {iota({1, 3, 3, 1})}, {values({1, 2, 2, 1}, {4, 5, 7, 8})},
            attrs(2, 1)),
       Case("what does not fill a window is left out", {iota({1, 3, 3, 1})},
            {values({1, 1, 1, 1}, {4})}),
       Case("same padding: padding never wins", {iota({1, 3, 3, 1}, -9)},
            {values({1, 2, 2, 1}, {-5, -4, -2, -1})}, attrs(2, 2, true)),
       Case("same padding before and after", {iota({1, 3, 3, 1})},
            {values({1, 3, 3, 1}, {4, 5, 5, 7, 8, 8, 7, 8, 8})}, attrs(3, 1, true)),
       Case("a stride past everything", {iota({1, 2, 2, 1})}, {values({1, 1, 1, 1}, {3})},
            attrs(2, INT64_MAX, true)),
       Case("a window past everything", {iota({1, 2, 2, 1})}, {values({1, 1, 1, 1}, {3})},
            attrs(INT64_MAX, 2, true)),
       Case("size one", {values({1, 1, 1, 1}, {3})}, {values({1, 1, 1, 1}, {3})}, attrs(1, 1)),
       Case("NaN and infinities",
            {values({1, 2, 2, 2},
                    {1, -INFINITY, NAN, -INFINITY, INFINITY, -INFINITY, 2, -INFINITY})},
            {values({1, 1, 1, 2}, {NAN, -INFINITY})})
           .rough(),
       Case("no images", {zeros({0, 4, 4, 2})}, {zeros({0, 2, 2, 2})}),
       Case("no channels", {zeros({1, 4, 4, 0})}, {zeros({1, 2, 2, 0})}),
       Case("MaxPoolGradient", "the first of equals gets it", {dy, x},
            {values({1, 4, 4, 1}, {0, 1, 0, 0, 0, 0, 2, 0, 3, 0, 4, 0, 0, 0, 0, 0})})
           .rough(),
       Case("MaxPoolGradient", "a maximum of several windows gets all of them",
            {dy, values({1, 3, 3, 1}, {0, 1, 2, 3, 9, 4, 5, 6, 7})},
            {values({1, 3, 3, 1}, {0, 0, 0, 0, 10, 0, 0, 0, 0})}, attrs(2, 1)),
       Case("MaxPoolGradient", "size one", {values({1, 1, 1, 1}, {3}), values({1, 1, 1, 1}, {-7})},
            {values({1, 1, 1, 1}, {3})}, attrs(1, 1)),
       Case("MaxPoolGradient", "no images", {zeros({0, 2, 2, 1}), zeros({0, 4, 4, 1})},
            {zeros({0, 4, 4, 1})}),
       Case("MaxPoolSelect", "values at the maxima", {iota({1, 4, 4, 1}), x},
            {values({1, 2, 2, 1}, {1, 6, 8, 10})})
           .rough(),
       Case("MaxPoolSelect", "all different",
            {iota({1, 2, 2, 1}, 10), values({1, 2, 2, 1}, {1, 3, 2, 0})},
            {values({1, 1, 1, 1}, {11})}),
       Case("MaxPoolSelect", "no images", {zeros({0, 2, 2, 1}), zeros({0, 2, 2, 1})},
            {zeros({0, 1, 1, 1})})},
      {
          Refused({zeros({4, 1})},
                  "wants images [batch, width, channels], with height and depth before width "
                  "if there are any, got ["),
          Refused({zeros({4, 4, 1})}, "wants images [batch, height, width, channels], got [")
              .made_by([](Graph&, const std::vector<Output>& in) {
                return std::vector{max_pool2d(in[0])};
              }),
          Refused({zeros({1, 1, 4, 1})},
                  "the window 2 is larger than dimension 1 of images [1, 1, 4, 1]; use "
                  "same padding or a smaller window"),
          Refused({zeros({1, 4, 4, 1})}, "wants a window of at least 1, got 0", attrs(0, 2)),
          Refused({i32(zeros({1, 4, 4, 1}))}, "has no kernel for i32; cast to one of f32, f64"),
          Refused("MaxPoolGradient", {zeros({1, 2, 3, 1}), zeros({1, 4, 4, 1})},
                  "dy [1, 2, 3, 1] does not fit: images [1, 4, 4, 1] give [1, 2, 2, 1]"),
          Refused("MaxPoolSelect", {zeros({1, 4, 2, 1}), zeros({1, 4, 4, 1})},
                  "wants two shapes that are equal, got [1, 4, 2, 1] and [1, 4, 4, 1]"),
      });
});

}  // namespace

TEST_CASE("pools in f32 have the bits of those in f64") {
  std::mt19937 random(7);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random()) % n; };
  const auto noise = [&](const Shape& shape, int64_t different, double scale) {
    Tensor out = zeros(shape);
    for (int64_t i = 0; i < out.size(); ++i)
      out.mutable_data<double>()[i] = static_cast<double>(below(different)) * scale - 4;
    return out;
  };
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    PoolOptions how;
    const Shape shape{1 + below(3), 1 + below(9), 1 + below(9), 1 + below(20)};
    how.same_padding = below(2) == 1;
    how.window = 1 + below(how.same_padding ? 5 : std::min(shape[1], shape[2]));
    how.stride = 1 + below(4);
    Tensor x = noise(shape, 40, 0.25);  // some are equal
    if (below(8) == 0) x.mutable_data<double>()[below(x.size())] = NAN;
    if (below(8) == 0) x.mutable_data<double>()[below(x.size())] = -INFINITY;
    const auto pooled = [&](const Tensor& images) {
      Graph graph;
      return evaluate(max_pool2d(constant(graph, images), how));
    };
    const auto back = [&](const Tensor& dy, const Tensor& images) {
      Graph graph;
      return evaluate(max_pool2d_gradient(constant(graph, dy), constant(graph, images), how));
    };
    const Tensor y = pooled(x), dy = noise(y.shape(), 64, 0.125);
    CHECK(same_bits(pooled(f32(x)), f32(y)));
    CHECK(same_bits(back(f32(dy), f32(x)), f32(back(dy, x))));
  }
}

}  // namespace troupe

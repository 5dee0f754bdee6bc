// Resize and its gradient. Expected values are TensorFlow's, which has the same three grids.
#include "tests/support/op_cases.hpp"
#include "troupe/ops/networks.hpp"

namespace troupe {
namespace {

Attrs to(int64_t height, int64_t width, const char* grid = "half_pixel",
         const char* interpolation = "bilinear") {
  return {{"size", Ints{height, width}},
          {"grid", std::string(grid)},
          {"interpolation", std::string(interpolation)}};
}

// 0, 1, 4; 9, 16, 25.
Tensor squares() { return values({1, 2, 3, 1}, {0, 1, 4, 9, 16, 25}); }

OpCase of(std::string name, Attrs attrs, Tensor expected) {
  return Case("Resize", std::move(name), {squares()}, {expected}, std::move(attrs)).as_typed();
}

// A case for any dtype.
OpCase nearest(std::string name, int64_t height, int64_t width, const char* grid, Tensor expected) {
  OpCase c = of(std::move(name), to(height, width, grid, "nearest"), expected);
  c.as_written = false;
  return c;
}

std::vector<OpCase> bilinear_cases() {
  const Shape larger{1, 3, 5, 1}, smaller{1, 1, 2, 1};
  OpCase single = of("of f32", to(1, 2), f32(values(smaller, {5.5, 13})));
  single.inputs = {f32(squares())};
  OpCase brain = of("of bf16", to(1, 2), converted(values(smaller, {5.5, 13}), DType::bf16));
  brain.inputs = {converted(squares(), DType::bf16)};
  OpCase half = of("of f16", to(1, 2), converted(values(smaller, {5.5, 13}), DType::f16));
  half.inputs = {converted(squares(), DType::f16)};
  OpCase channels = of("two images of two channels", to(1, 1), values({2, 1, 1, 2}, {1, 2, 5, 6}));
  channels.inputs = {iota({2, 1, 2, 2})};
  OpCase none = of("no images", to(2, 2), zeros({0, 2, 2, 1}));
  none.inputs = {zeros({0, 3, 3, 1})};
  OpCase infinite = of("NaN and infinities stay where they are", to(1, 4, "align_corners"),
                       values({1, 1, 4, 1}, {1, NAN, INFINITY, 2}));
  infinite.inputs = {values({1, 1, 4, 1}, {1, NAN, INFINITY, 2})};
  infinite.smooth = false;
  return {of("larger", to(3, 5),
             values(larger, {0, 0.4, 1, 2.8, 4, 4.5, 6.1, 8.5, 12.1, 14.5, 9, 11.8, 16, 21.4, 25})),
          of("larger, corners aligned", to(3, 5, "align_corners"),
             values(larger, {0, 0.5, 1, 2.5, 4, 4.5, 6.5, 8.5, 11.5, 14.5, 9, 12.5, 16, 20.5, 25})),
          of("larger, asymmetric", to(3, 5, "asymmetric"),
             values(larger, {0, 0.6, 1.6, 3.4, 4, 6, 9, 12.4, 16.6, 18, 9, 13.2, 17.8, 23.2, 25})),
          of("smaller", to(1, 2), values(smaller, {5.5, 13})),
          of("smaller, corners aligned", to(1, 2, "align_corners"), values(smaller, {0, 4})),
          of("smaller, asymmetric", to(1, 2, "asymmetric"), values(smaller, {0, 2.5})),
          of("of the same size", to(2, 3), squares()),
          of("one pixel", to(1, 1), values({1, 1, 1, 1}, {8.5})),
          single,
          brain,
          half,
          channels,
          none,
          infinite};
}

std::vector<OpCase> nearest_cases() {
  const Shape larger{1, 3, 5, 1}, smaller{1, 1, 2, 1};
  return {
      nearest("nearest, larger", 3, 5, "half_pixel",
              values(larger, {0, 0, 1, 4, 4, 9, 9, 16, 25, 25, 9, 9, 16, 25, 25})),
      nearest("nearest, larger, corners aligned", 3, 5, "align_corners",
              values(larger, {0, 1, 1, 4, 4, 9, 16, 16, 25, 25, 9, 16, 16, 25, 25})),
      nearest("nearest, larger, asymmetric", 3, 5, "asymmetric",
              values(larger, {0, 0, 1, 1, 4, 0, 0, 1, 1, 4, 9, 9, 16, 16, 25})),
      nearest("nearest, smaller", 1, 2, "half_pixel", values(smaller, {9, 25})),
      nearest("nearest, smaller, corners aligned", 1, 2, "align_corners", values(smaller, {0, 4})),
      nearest("nearest, smaller, asymmetric", 1, 2, "asymmetric", values(smaller, {0, 1}))};
}

std::vector<OpCase> gradient_cases() {
  return {
      Case("ResizeGradient", "between rows",
           {values({1, 4, 1, 1}, {1, 2, 3, 4}), zeros({1, 2, 1, 1})},
           {values({1, 2, 1, 1}, {3.25, 6.75})}, to(4, 1)),
      Case("ResizeGradient", "of pixels that were taken",
           {values({1, 1, 5, 1}, {1, 2, 3, 4, 5}), zeros({1, 1, 3, 1})},
           {values({1, 1, 3, 1}, {3, 3, 9})}, to(1, 5, "half_pixel", "nearest")),
      Case("ResizeGradient", "of pixels that were left out",
           {values({2, 1, 1, 2}, {1, 2, 3, 4}), zeros({2, 1, 3, 2})},
           {values({2, 1, 3, 2}, {1, 2, 0, 0, 0, 0, 3, 4, 0, 0, 0, 0})}, to(1, 1, "asymmetric")),
      Case("ResizeGradient", "no channels", {zeros({1, 2, 2, 0}), zeros({1, 3, 3, 0})},
           {zeros({1, 3, 3, 0})}, to(2, 2))};
}

const Table table("Resize places pixels on three grids, between pixels or on the nearest one", [] {
  OpCases all = {
      .errors = {
          Refused("Resize", {zeros({2, 3, 1})},
                  "wants images [batch, height, width, channels], got [", to(1, 1)),
          Refused("Resize", {squares()}, "wants a height and a width of at least 1", to(0, 1)),
          Refused("Resize", {zeros({1, 0, 3, 1})}, "there are no pixels in [1, 0, 3, 1]", to(1, 1)),
          Refused("Resize", {squares()},
                  "has grids half_pixel, align_corners and asymmetric, not \"half\"",
                  to(1, 1, "half")),
          Refused("Resize", {squares()}, "interpolates nearest or bilinear, not \"cubic\"",
                  to(1, 1, "half_pixel", "cubic")),
          Refused("Resize", {u8(squares())},
                  "interpolates floats, got u8; cast it, or take the nearest pixels", to(1, 1)),
          Refused("ResizeGradient", {zeros({1, 2, 2, 1}), zeros({1, 3, 3, 1})},
                  "wants dy of shape [1, 2, 1, 1], that of [1, 3, 3, 1] resized", to(2, 1)),
          Refused("ResizeGradient", {zeros({1, 2, 2}), zeros({1, 3, 3})},
                  "wants images [batch, height, width, channels], got [", to(2, 2))}};
  for (const auto& part : {bilinear_cases(), nearest_cases(), gradient_cases()})
    all.values.insert(all.values.end(), part.begin(), part.end());
  return all;
});

}  // namespace

TEST_CASE("an image that is cut into jobs is resized as one that is not") {
  Graph graph;
  const Output x = constant(graph, f32(waves({3, 200, 130, 4}, 1)));
  for (const Interpolation how : {Interpolation::nearest, Interpolation::bilinear}) {
    const Output y = resize(x, 150, 400, {.interpolation = how});
    std::vector<Output> parts;  // each image alone, and channel by channel
    for (const Output& image : split(x, 3, 0)) {
      std::vector<Output> channels;
      for (const Output& channel : split(image, 4, 3))
        channels.push_back(resize(channel, 150, 400, {.interpolation = how}));
      parts.push_back(concat(channels, 3));
    }
    CHECK(same_bits(evaluate(y), evaluate(concat(parts, 0))));
  }
}

TEST_CASE("what is the same everywhere stays so at any size") {
  Graph graph;
  const Output x = constant(graph, f32(full({1, 7, 5, 3}, 0.3)));
  for (const PixelGrid grid :
       {PixelGrid::half_pixel, PixelGrid::align_corners, PixelGrid::asymmetric})
    CHECK(same_bits(evaluate(resize(x, 11, 3, {.grid = grid})), f32(full({1, 11, 3, 3}, 0.3))));
}

}  // namespace troupe

// Colours and random changes of images. Expected values of colours are TensorFlow's.
#include <algorithm>
#include <set>

#include "tests/support/op_cases.hpp"
#include "troupe/ops/networks.hpp"

namespace troupe {
namespace {

using OfImages = Output (*)(Output, Output);

// Four pixels: blue, orange, green, grey.
Tensor four() {
  return values({1, 2, 2, 3}, {0.2, 0.4, 0.6, 0.9, 0.3, 0.1, 0.1, 0.8, 0.5, 0.5, 0.5, 0.5});
}
// Three pixels; no two colours of a pixel are equal.
Tensor three() { return values({1, 1, 3, 3}, {0.2, 0.4, 0.6, 0.9, 0.3, 0.1, 0.1, 0.8, 0.5}); }

// A case of a function that is not an op; it is listed under ReduceMean, which has the float
// dtypes.
OpCase of(std::string name, Tensor x, Tensor expected, OfImages f, double number = 0) {
  return Case("ReduceMean", std::move(name), {x}, {expected})
      .within(2e-6)
      .made_by([f, number](Graph& graph, const std::vector<Output>& in) {
        return std::vector{f(in[0], fill(graph, {}, number, in[0].dtype()))};
      });
}

OpError refused(Tensor x, OfImages f, std::string message) {
  return Refused("ReduceMean", {x}, std::move(message))
      .made_by([f](Graph& graph, const std::vector<Output>& in) {
        return std::vector{f(in[0], fill(graph, {}, 1, DType::f64))};
      });
}

Output hsv(Output x, Output) { return rgb_to_hsv(x); }
Output rgb(Output x, Output) { return hsv_to_rgb(x); }
Output standard(Output x, Output) { return per_image_standardization(x); }
Output contrast(Output x, Output factor) { return adjust_contrast(x, factor); }
Output saturation(Output x, Output factor) { return adjust_saturation(x, factor); }
Output hue(Output x, Output turn) { return adjust_hue(x, turn); }

OpCases cases() {
  const Tensor three_hsv =
      values({1, 1, 3, 3}, {7.0 / 12, 2.0 / 3, 0.6, 1.0 / 24, 8.0 / 9, 0.9, 3.0 / 7, 0.875, 0.8});
  OpCase grey =
      of("greys, black and a primary colour", matrix({{0.5, 0.5, 0.5}, {0, 0, 0}, {1, 0, 0}}),
         matrix({{0, 0, 0.5}, {0, 0, 0}, {0, 1, 1}}), hsv);
  grey.smooth = false;
  OpCase corners = of(
      "from hues",
      values({5, 3}, {0, 1, 1, 0.95, 0.5, 0.8, 0.3, 0.2, 0.9, 0.5, 1, 0.4, 0.7, 0, 0.3}),
      values({5, 3}, {1, 0, 0, 0.8, 0.4, 0.52, 0.756, 0.9, 0.72, 0, 0.4, 0.4, 0.3, 0.3, 0.3}), rgb);
  corners.smooth = false;
  return {
      .values = {of("to hues", three(), three_hsv, hsv), grey, corners,
                 of("from hues between the corners", three_hsv, three(), rgb),
                 of("contrast", three(),
                    values({1, 1, 3, 3}, {0.1, 0.35, 0.7, 1.15, 0.2, -0.05, -0.05, 0.95, 0.55}),
                    contrast, 1.5),
                 of("saturation", three(),
                    values({1, 1, 3, 3}, {0.3, 0.45, 0.6, 0.9, 0.45, 0.3, 0.275, 0.8, 0.575}),
                    saturation, 0.75),
                 of("hue", three(),
                    values({1, 1, 3, 3}, {0.48, 0.2, 0.6, 0.54, 0.9, 0.1, 0.1, 0.26, 0.8}), hue,
                    0.2),
                 of("standardised", four(),
                    values({1, 2, 2, 3},
                           {-0.866025447845459, -0.17320512235164642, 0.5196152925491333,
                            1.5588456392288208, -0.5196152925491333, -1.2124357223510742,
                            -1.2124357223510742, 1.2124356031417847, 0.17320501804351807,
                            0.17320501804351807, 0.17320501804351807, 0.17320501804351807}),
                    standard)},
      .errors = {refused(zeros({3}), standard, "per_image_standardization made at "),
                 refused(i32(zeros({2, 3})), rgb, "wants f32 or f64 in [0, 1], got i32"),
                 refused(zeros({2, 3}), contrast, "wants images [batch, height, width, channels]"),
                 refused(zeros({}), hue, "wants three colours [..., 3], got []")}};
}

// 64 different images of 4 x 6.
Tensor many() { return f32(iota({64, 4, 6, 1})); }

const float* image(const Tensor& images, int64_t i) {
  return images.data<float>() + i * (images.size() / images.dim(0));
}

}  // namespace

TEST_CASE("colours turn into hues and back, and are spread as TensorFlow spreads them") {
  check(cases());
}

TEST_CASE("an image of one colour is standardised to zeros") {
  Graph graph;
  const Output x = constant(graph, f32(full({2, 3, 3, 1}, 0.5)));
  CHECK(same_bits(evaluate(per_image_standardization(x)), f32(zeros({2, 3, 3, 1}))));
}

TEST_CASE("random_crop takes boxes that are inside, everywhere, and the same ones for a seed") {
  Graph graph;
  const Output x = constant(graph, many());
  const Tensor y = evaluate(random_crop(x, 2, 5, 3));
  REQUIRE(y.shape() == Shape{64, 2, 5, 1});
  std::set<int64_t> offsets;
  for (int64_t i = 0; i < 64; ++i) {
    const auto first = static_cast<int64_t>(image(y, i)[0]) - i * 24;
    offsets.insert(first);
    for (int64_t r = 0; r < 2; ++r)
      for (int64_t k = 0; k < 5; ++k)
        CHECK(image(y, i)[r * 5 + k] == static_cast<float>(i * 24 + first + r * 6 + k));
  }
  CHECK(offsets == std::set<int64_t>{0, 1, 6, 7, 12, 13});
  const Output again = random_crop(x, 2, 5, 3, "again");
  CHECK(!same_bits(evaluate(again), y));
  Graph other;
  CHECK(same_bits(evaluate(random_crop(constant(other, many()), 2, 5, 3)), y));
  CHECK(!same_bits(evaluate(again, {}, {.step = 1}), evaluate(again, {}, {.step = 2})));
}

TEST_CASE("random_flip_left_right turns about half of the images round") {
  Graph graph;
  const Tensor x = many();
  const Tensor y = evaluate(random_flip_left_right(constant(graph, x), 1));
  const Tensor turned = evaluate(flip_left_right(constant(graph, x)));
  int flips = 0;
  for (int64_t i = 0; i < 64; ++i) {
    const bool flip = image(y, i)[0] != image(x, i)[0];
    flips += flip;
    CHECK(std::equal(image(y, i), image(y, i) + 24, image(flip ? turned : x, i)));
  }
  CHECK(flips > 16);
  CHECK(flips < 48);
}

TEST_CASE("colour_jitter changes each image in its own way, within its limits") {
  Graph graph;
  const Tensor grey = f32(full({32, 2, 2, 3}, 0.5));
  const Output x = constant(graph, grey);
  CHECK(same_bits(evaluate(colour_jitter(x, {})), grey));
  const Tensor y = evaluate(colour_jitter(x, {.brightness = 0.25}, 5));
  std::set<float> different;
  for (int64_t i = 0; i < 32; ++i) {
    different.insert(image(y, i)[0]);
    CHECK(std::abs(image(y, i)[0] - 0.5F) <= 0.25F);
    CHECK(std::count(image(y, i), image(y, i) + 12, image(y, i)[0]) == 12);
  }
  CHECK(different.size() > 30);
  const Output wild = constant(graph, f32(full({8, 4, 4, 3}, 0.5)));
  const Output coloured = clip(wild + constant(graph, f32(waves({8, 4, 4, 3}, 2))), 0, 1);
  const ColourJitter all{.brightness = 0.5, .contrast = 0.9, .saturation = 0.9, .hue = 0.5};
  const Tensor z = evaluate(colour_jitter(coloured, all, 5));
  for (const float value : z.values<float>()) {
    CHECK(value >= -1e-6F);
    CHECK(value <= 1 + 1e-6F);
  }
  CHECK(!same_bits(z, evaluate(coloured)));
}

TEST_CASE("random changes refuse what they cannot draw for") {
  Graph graph;
  const Output any = placeholder(graph, DType::f32, {-1, 4, 4, 3});
  const Output x = placeholder(graph, DType::f32, {2, 4, 4, 3});
  const auto refuses = [](auto&& call, const char* message) {
    CHECK_THROWS_WITH_AS(call(), doctest::Contains(message), Error);
  };
  refuses([&] { random_crop(any, 2, 2); }, "wants sizes that are known while building, got [-1");
  refuses([&] { random_crop(x, 5, 2); }, "cuts 5 rows and 2 columns out of [2, 4, 4, 3]");
  refuses([&] { random_flip_left_right(any); }, "so their number must be known, got [-1");
  refuses([&] { colour_jitter(any, {}); }, "images_test.cpp");
  refuses([&] { colour_jitter(x, {.hue = 0.6}); }, "and hue in [0, 0.5], got 0, 0, 0 and 0.6");
  refuses(
      [&] {
        rgb_to_hsv(slice(x, {0, 0, 0, 0}, {1, 1, 1, 2}));
      },
      "wants three colours [..., 3], got [1, 1, 1, 2]");
  refuses(
      [&] {
        colour_jitter(slice(x, {0, 0, 0, 0}, {1, 1, 1, 1}), {});
      },
      "colour_jitter made at ");
  refuses([&] { random_crop(Output{}, 1, 1); }, "its inputs are undefined Outputs");
}

}  // namespace troupe

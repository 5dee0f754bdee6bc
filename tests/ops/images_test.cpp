// Colours of pixels, and the functions of images that are made of other ops. Expected values are
// those of Python's colorsys and NumPy.
#include <doctest/doctest.h>

#include <set>

#include "tests/support/op_cases.hpp"
#include "troupe/ops/images.hpp"

namespace troupe {
namespace {

OpCases cases() {
  const auto case_of = [](std::string name, std::string op, Tensor x, Tensor y) {
    return OpCase{.name = std::move(name),
                  .op = std::move(op),
                  .inputs = {x},
                  .expected = {y},
                  .tolerance = 1e-6,
                  .smooth = false};
  };
  OpCases table;
  table.values = {
      case_of("colours to hues", "RgbToHsv",
              matrix({{0.2, 0.4, 0.6},
                      {0.9, 0.1, 0.3},
                      {0.5, 0.5, 0.5},
                      {0, 0, 0},
                      {0.3, 0.8, 0.1},
                      {1, 0, 0},
                      {0.7, 0.7, 0.2}}),
              matrix({{0.5833333333333334, 0.6666666666666666, 0.6},
                      {0.9583333333333334, 0.888888888888889, 0.9},
                      {0, 0, 0.5},
                      {0, 0, 0},
                      {0.28571428571428575, 0.875, 0.8},
                      {0, 1, 1},
                      {0.16666666666666666, 0.7142857142857143, 0.7}})),
      case_of("hues to colours", "HsvToRgb",
              matrix({{0.1, 0.5, 0.8},
                      {0.3, 1, 1},
                      {0.55, 0.25, 0.6},
                      {0.7, 0.9, 0.4},
                      {0.95, 0.3, 0.9},
                      {0, 0, 0.3},
                      {0.45, 0.8, 0.5}}),
              matrix({{0.8, 0.64, 0.4},
                      {0.2, 1, 0},
                      {0.45, 0.555, 0.6},
                      {0.112, 0.04, 0.4},
                      {0.9, 0.63, 0.711},
                      {0.3, 0.3, 0.3},
                      {0.1, 0.5, 0.38}})),
      case_of("whole turns change nothing", "HsvToRgb",
              matrix({{1.45, 0.8, 0.5}, {-0.55, 0.8, 0.5}}),
              matrix({{0.1, 0.5, 0.38}, {0.1, 0.5, 0.38}})),
      case_of("no pixels", "RgbToHsv", zeros({0, 3}), zeros({0, 3})),
      case_of("no pixels", "HsvToRgb", zeros({0, 3}), zeros({0, 3})),
  };
  for (const char* op : {"RgbToHsv", "HsvToRgb"}) {
    table.errors.push_back(
        {.op = op, .inputs = {zeros({2, 4})}, .message = "wants three numbers a pixel"});
    table.errors.push_back(
        {.op = op, .inputs = {i32(zeros({2, 3}))}, .message = "has no kernel for i32"});
  }
  return table;
}
const ListedCases listed(cases);

void check_made(const BuildCase& build, const Tensor& x, const Tensor& expected) {
  check_value({.name = "made of ops",
               .op = "Reshape",
               .inputs = {x},
               .expected = {expected},
               .tolerance = 1e-6,
               .build = build,
               .as_written = true,
               .smooth = false});
}

Tensor run_one(const Output& y) { return evaluate(*y.graph, {y})[0]; }

}  // namespace

TEST_CASE("colours turn into hue, saturation and value, and back") { check(cases()); }

TEST_CASE("per_image_standardization gives each image the mean 0 and the deviation 1") {
  const Tensor x =
      values({1, 2, 2, 3}, {0, 1, 2.8284271247461903, 5.196152422706632, 8, 11.180339887498949,
                            14.696938456699069, 18.520259177452136, 22.627416997969522, 27,
                            31.622776601683796, 36.4828726939094});
  check_made([](Graph&, const auto& in) { return std::vector{per_image_standardization(in[0])}; },
             x,
             values({1, 2, 2, 3}, {-1.261299090765533, -1.1768159694564093, -1.0223447388715847,
                                   -0.8223119152973114, -0.585434120292543, -0.3167490797727243,
                                   -0.019655856255499524, 0.303350211999568, 0.650335724386055,
                                   1.0197451845808083, 1.4102917810058393, 1.8208878687393333}));
  // Of an image of one colour nothing is left, as the deviation counts as 1 / sqrt(n) at least.
  check_made([](Graph&, const auto& in) { return std::vector{per_image_standardization(in[0])}; },
             full({2, 2, 2, 1}, 7), zeros({2, 2, 2, 1}));
}

TEST_CASE("contrast is the distance from the mean of a channel") {
  check_made(
      [](Graph& g, const auto& in) {
        return std::vector{adjust_contrast(in[0], constant(g, scalar(1.5)))};
      },
      values({1, 2, 2, 1}, {1, 2, 3, 6}), values({1, 2, 2, 1}, {0, 1.5, 3, 7.5}));
}

TEST_CASE("saturation and hue change in their own space") {
  const Tensor x = values({1, 1, 2, 3}, {0.2, 0.4, 0.6, 0.9, 0.1, 0.3});
  check_made(
      [](Graph& g, const auto& in) {
        return std::vector{adjust_saturation(in[0], constant(g, scalar(1.2)))};
      },
      x, values({1, 1, 2, 3}, {0.12, 0.36, 0.6, 0.9, 0, 0.225}));
  check_made(
      [](Graph& g, const auto& in) {
        return std::vector{adjust_hue(in[0], constant(g, scalar(0.25)))};
      },
      x, values({1, 1, 2, 3}, {0.6, 0.2, 0.6, 0.7, 0.9, 0.1}));
  check_made(
      [](Graph& g, const auto& in) {
        return std::vector{adjust_hue(in[0], constant(g, scalar(-0.4)))};
      },
      x, values({1, 1, 2, 3}, {0.56, 0.6, 0.2, 0.1, 0.62, 0.9}));
}

TEST_CASE("random crops and flips are drawn for each image, and the same for the same seed") {
  Graph g;
  const Output x = constant(g, iota({64, 4, 4, 1}));
  const Tensor part = run_one(random_crop(x, 2, 2, 5)),
               flipped = run_one(random_flip_left_right(x, 5));
  std::set<int64_t> places, sides;
  for (int64_t b = 0; b < 64; ++b) {
    const double first = part.data<double>()[b * 4] - static_cast<double>(b) * 16;
    places.insert(static_cast<int64_t>(first));
    CHECK(part.data<double>()[b * 4 + 3] == part.data<double>()[b * 4] + 5);
    sides.insert(static_cast<int64_t>(flipped.data<double>()[b * 16]) % 16);
  }
  CHECK(places == std::set<int64_t>{0, 1, 2, 4, 5, 6, 8, 9, 10});
  CHECK(sides == std::set<int64_t>{0, 3});
  Graph again;
  CHECK(same_bits(run_one(random_crop(constant(again, iota({64, 4, 4, 1})), 2, 2, 5)), part));
}

TEST_CASE("colour_jitter leaves out what is 0, and keeps within what it was told") {
  Graph g;
  const Output x = constant(g, f32(full({200, 2, 2, 3}, 0.5)));
  CHECK(colour_jitter(x, {}) == x);
  const Tensor bright = run_one(colour_jitter(x, {.brightness = 0.25}, 3));
  float least = 1, most = 0;
  for (const float v : bright.values<float>()) {
    least = std::min(least, v);
    most = std::max(most, v);
  }
  CHECK(least >= 0.25f);
  CHECK(least < 0.3f);
  CHECK(most > 0.7f);
  CHECK(most < 0.75f);
  const Tensor all = run_one(
      colour_jitter(x, {.brightness = 0.1, .contrast = 0.2, .saturation = 0.3, .hue = 0.1}));
  CHECK(all.shape() == Shape{200, 2, 2, 3});
}

TEST_CASE("functions of images refuse what they cannot work on, naming the caller's line") {
  Graph g;
  const Output flat = constant(g, zeros({2, 3})), images = constant(g, zeros({2, 3, 3, 1})),
               some = placeholder(g, DType::f32, {-1, 3, 3, 1});
  CHECK_THROWS_WITH_AS(random_crop(images, 4, 1), doctest::Contains("does not fit"), Error);
  CHECK_THROWS_WITH_AS(random_crop(some, 1, 1), doctest::Contains("sizes are known"), Error);
  CHECK_THROWS_WITH_AS(per_image_standardization(flat), doctest::Contains("images_test.cpp"),
                       Error);
  CHECK_THROWS_WITH_AS(random_flip_left_right(some), doctest::Contains("number is known"), Error);
  CHECK_THROWS_WITH_AS(colour_jitter(images, {.hue = -1}), doctest::Contains("not negative"),
                       Error);
  CHECK_THROWS_AS(adjust_contrast(Output{}, images), Error);
}

}  // namespace troupe

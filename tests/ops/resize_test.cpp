// Resize and ResizeGradient. Expected values are NumPy's: interp() along one dimension after the
// other, repeat() and strides.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"
#include "troupe/ops/images.hpp"

namespace troupe {
namespace {

Attrs form(ResizeMethod method, ResizeSampling sampling) {
  return {{"method", static_cast<int64_t>(method)}, {"sampling", static_cast<int64_t>(sampling)}};
}
Attrs to(int64_t height, int64_t width, ResizeMethod method, ResizeSampling sampling) {
  Attrs attrs = form(method, sampling);
  attrs["height"] = height;
  attrs["width"] = width;
  return attrs;
}
constexpr auto kNearest = ResizeMethod::nearest;
constexpr auto kBilinear = ResizeMethod::bilinear;
constexpr auto kHalf = ResizeSampling::half_pixel;
constexpr auto kCorners = ResizeSampling::align_corners;
constexpr auto kAsymmetric = ResizeSampling::asymmetric;

// No integers: bilinear is between floats.
Tensor image() { return values({1, 2, 3, 1}, {0.5, 1, 2, 4, 8, 16}); }

OpCases cases() {
  const auto case_of = [](std::string name, Tensor x, Attrs attrs, Tensor y) {
    return OpCase{.name = std::move(name),
                  .op = "Resize",
                  .inputs = {x},
                  .attrs = std::move(attrs),
                  .expected = {y},
                  .twice = false};
  };
  OpCases table;
  table.values = {
      case_of("bilinear, half pixels", image(), to(3, 5, kBilinear, kHalf),
              values({1, 3, 5, 1},
                     {0.5, 0.7, 1, 1.6, 2, 2.25, 3.15, 4.5, 7.2, 9, 4, 5.6, 8, 12.8, 16})),
      case_of("bilinear, fewer pixels", image(), to(1, 2, kBilinear, kHalf),
              values({1, 1, 2, 1}, {2.8125, 7.875})),
      case_of(
          "bilinear, corners", image(), to(3, 5, kBilinear, kCorners),
          values({1, 3, 5, 1}, {0.5, 0.75, 1, 1.5, 2, 2.25, 3.375, 4.5, 6.75, 9, 4, 6, 8, 12, 16})),
      case_of("bilinear, one row between corners", image(), to(1, 2, kBilinear, kCorners),
              values({1, 1, 2, 1}, {0.5, 2})),
      case_of("bilinear, asymmetric", image(), to(2, 2, kBilinear, kAsymmetric),
              values({1, 2, 2, 1}, {0.5, 1.5, 4, 12})),
      case_of("nearest, twice as large", image(), to(4, 6, kNearest, kHalf),
              values({1, 4, 6, 1}, {0.5, 0.5, 1, 1, 2,  2,  0.5, 0.5, 1, 1, 2,  2,
                                    4,   4,   8, 8, 16, 16, 4,   4,   8, 8, 16, 16})),
      case_of("nearest, half as large", iota({1, 4, 4, 1}), to(2, 2, kNearest, kHalf),
              values({1, 2, 2, 1}, {5, 7, 13, 15})),
      case_of("nearest, asymmetric", iota({1, 4, 4, 1}), to(2, 2, kNearest, kAsymmetric),
              values({1, 2, 2, 1}, {0, 2, 8, 10})),
      case_of("nearest, corners", iota({1, 1, 4, 1}), to(1, 2, kNearest, kCorners),
              values({1, 1, 2, 1}, {0, 3})),
      case_of("channels and images stay apart", iota({2, 1, 2, 2}), to(1, 4, kNearest, kHalf),
              values({2, 1, 4, 2}, {0, 1, 0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7, 6, 7})),
      case_of("the same size", image(), to(2, 3, kBilinear, kHalf), image()),
      case_of("no images", zeros({0, 2, 3, 1}), to(4, 4, kNearest, kHalf), zeros({0, 4, 4, 1})),
  };
  const Tensor halves = values({1, 1, 3, 1}, {1, 2, 4}), pair = zeros({1, 1, 2, 1});
  table.values.push_back({.name = "halves go back to the two they were made of",
                          .op = "ResizeGradient",
                          .inputs = {halves, pair},
                          .attrs = form(kBilinear, kCorners),
                          .expected = {values({1, 1, 2, 1}, {2, 5})},
                          .smooth = false});
  // Its own gradient needs to know the height and width of dy.
  table.values.push_back({.name = "halves of known sizes",
                          .op = "ResizeGradient",
                          .inputs = {halves, pair},
                          .expected = {values({1, 1, 2, 1}, {2, 5})},
                          .build =
                              [](Graph&, const std::vector<Output>& in) {
                                return std::vector{resize_gradient(reshape(in[0], {1, 1, 3, 1}),
                                                                   reshape(in[1], {1, 1, 2, 1}),
                                                                   {kBilinear, kCorners})};
                              },
                          .twice = false});
  table.values.push_back({.name = "what was repeated is added",
                          .op = "ResizeGradient",
                          .inputs = {iota({1, 2, 4, 1}), pair},
                          .attrs = form(kNearest, kHalf),
                          .expected = {values({1, 1, 2, 1}, {10, 18})},
                          .smooth = false});
  table.errors = {
      {.op = "Resize",
       .inputs = {zeros({2, 3})},
       .attrs = to(1, 1, kNearest, kHalf),
       .message = "wants images [batch, height, width, channels]"},
      {.op = "Resize",
       .inputs = {image()},
       .attrs = to(0, 1, kNearest, kHalf),
       .message = "wants a height and a width of at least 1, got 0 and 1"},
      {.op = "Resize",
       .inputs = {zeros({1, 0, 3, 1})},
       .attrs = to(2, 2, kNearest, kHalf),
       .message = "cannot make pixels of none"},
      {.op = "Resize",
       .inputs = {i32(iota({1, 2, 3, 1}))},
       .attrs = to(2, 2, kBilinear, kHalf),
       .message = "cast them, or take the nearest"},
      {.op = "Resize",
       .inputs = {image()},
       .attrs = to(2, 2, static_cast<ResizeMethod>(7), kHalf),
       .message = "got 7"},
      {.op = "ResizeGradient",
       .inputs = {zeros({2, 1, 1, 1}), image()},
       .attrs = form(kBilinear, kCorners),
       .message = "other images or channels"},
      {.op = "ResizeGradient",
       .inputs = {i32(iota({1, 2, 3, 1})), i32(iota({1, 2, 3, 1}))},
       .attrs = form(kBilinear, kCorners),
       .message = "has no kernel for i32"},
      {.op = "ResizeGradient",
       .inputs = {zeros({3}), image()},
       .attrs = form(kBilinear, kCorners),
       .message = "wants dy [batch, height, width, channels]"},
  };
  return table;
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Resize makes pixels of those around them") { check(cases()); }

}  // namespace troupe

// CropImages and CropImagesGradient.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"
#include "troupe/ops/images.hpp"

namespace troupe {
namespace {

Attrs size(int64_t height, int64_t width) { return {{"height", height}, {"width", width}}; }
Tensor offsets(std::initializer_list<std::initializer_list<double>> rows) {
  return i32(matrix(rows));
}

OpCases cases() {
  const Tensor x = iota({2, 3, 3, 1});
  OpCases table;
  table.values = {
      {.name = "a part of each",
       .op = "CropImages",
       .inputs = {x, offsets({{0, 1}, {1, 0}})},
       .attrs = size(2, 2),
       .expected = {values({2, 2, 2, 1}, {1, 2, 4, 5, 12, 13, 15, 16})},
       .twice = false},
      {.name = "the whole, by offsets of i64",
       .op = "CropImages",
       .inputs = {x, i64(zeros({2, 2}))},
       .attrs = size(3, 3),
       .expected = {x},
       .twice = false},
      {.name = "channels stay together",
       .op = "CropImages",
       .inputs = {iota({1, 2, 2, 2}), offsets({{1, 1}})},
       .attrs = size(1, 1),
       .expected = {values({1, 1, 1, 2}, {6, 7})},
       .twice = false},
      {.name = "a part without pixels",
       .op = "CropImages",
       .inputs = {x, offsets({{3, 0}, {0, 3}})},
       .attrs = size(0, 0),
       .expected = {zeros({2, 0, 0, 1})},
       .twice = false},
      {.name = "no images",
       .op = "CropImages",
       .inputs = {zeros({0, 3, 3, 1}), i32(zeros({0, 2}))},
       .attrs = size(2, 2),
       .expected = {zeros({0, 2, 2, 1})},
       .twice = false},
      {.name = "back to where they were",
       .op = "CropImagesGradient",
       .inputs = {iota({2, 1, 2, 1}, 1), offsets({{0, 0}, {1, 1}}), zeros({2, 2, 3, 1})},
       .expected = {values({2, 2, 3, 1}, {1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 3, 4})},
       .smooth = false},
      // Its own gradient needs to know the height and width of dy.
      {.name = "parts of a known size",
       .op = "CropImagesGradient",
       .inputs = {iota({2, 1, 2, 1}, 1), offsets({{0, 0}, {1, 1}}), zeros({2, 2, 3, 1})},
       .expected = {values({2, 2, 3, 1}, {1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 3, 4})},
       .build =
           [](Graph&, const std::vector<Output>& in) {
             return std::vector{crop_images_gradient(reshape(in[0], {2, 1, 2, 1}), in[1], in[2])};
           },
       .twice = false},
  };
  table.errors = {
      {.op = "CropImages",
       .inputs = {zeros({3, 3}), offsets({{0, 0}})},
       .attrs = size(1, 1),
       .message = "wants images"},
      {.op = "CropImages",
       .inputs = {x, offsets({{0, 0}})},
       .attrs = size(1, 1),
       .message = "wants offsets [batch, 2]"},
      {.op = "CropImages",
       .inputs = {x, zeros({2, 2})},
       .attrs = size(1, 1),
       .message = "wants indices of i32 or i64"},
      {.op = "CropImages",
       .inputs = {x, offsets({{0, 0}, {0, 0}})},
       .attrs = size(4, 1),
       .message = "a part of 4 x 1 is larger than the images"},
      {.op = "CropImages",
       .inputs = {x, offsets({{0, 0}, {0, 0}})},
       .attrs = size(-1, 1),
       .message = "not negative, got -1 and 1"},
      {.op = "CropImages",
       .inputs = {x, offsets({{0, 0}, {2, 1}})},
       .attrs = size(2, 2),
       .message = "from row 2, column 1 of image 1 is not whole in [2, 3, 3, 1]",
       .when_run = true},
      {.op = "CropImages",
       .inputs = {x, offsets({{0, -1}, {0, 0}})},
       .attrs = size(2, 2),
       .message = "from row 0, column -1 of image 0",
       .when_run = true},
      {.op = "CropImagesGradient",
       .inputs = {zeros({1, 1, 1, 1}), offsets({{0, 0}, {0, 0}}), x},
       .message = "other images or channels"},
      {.op = "CropImagesGradient",
       .inputs = {zeros({1, 1}), offsets({{0, 0}, {0, 0}}), x},
       .message = "wants dy [batch, height, width, channels]"},
      {.op = "CropImagesGradient",
       .inputs = {i64(iota({2, 1, 1, 1})), offsets({{0, 0}, {0, 0}}), i64(x)},
       .message = "has no kernel for i64"},
      {.op = "CropImagesGradient",
       .inputs = {zeros({2, 1, 1, 1}), offsets({{0, 0}, {0, 3}}), x},
       .message = "is not whole in",
       .when_run = true},
  };
  return table;
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("CropImages takes a part of each image") { check(cases()); }

}  // namespace troupe

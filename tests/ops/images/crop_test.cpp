// Crop and its gradient. Expected values are slices of NumPy.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs box(int64_t height, int64_t width) { return {{"size", std::vector<int64_t>{height, width}}}; }

std::vector<OpError> errors() {
  const Tensor x = iota({2, 3, 4, 1});
  return {
      {.op = "Crop",
       .inputs = {zeros({3, 4, 1}), i32(zeros({2}))},
       .attrs = box(2, 1),
       .message = "wants images [batch, height, width, channels], got ["},
      {.op = "Crop",
       .inputs = {x, i64(zeros({2}))},
       .attrs = box(4, 1),
       .message = "cuts 4 rows and 1 columns out of [2, 3, 4, 1], which has fewer"},
      {.op = "Crop",
       .inputs = {x, i64(zeros({3, 2}))},
       .attrs = box(1, 1),
       .message = "wants offsets [2], top and left, or [batch, 2], got [3, 2]"},
      {.op = "Crop",
       .inputs = {x, i64(zeros({3}))},
       .attrs = box(1, 1),
       .message = "wants offsets [2], top and left, or [batch, 2], got [3]"},
      {.op = "Crop",
       .inputs = {x, zeros({2})},
       .attrs = box(1, 1),
       .message = "wants indices of i32 or i64, got f64; cast them"},
      {.op = "Crop",
       .inputs = {x, i64(zeros({2}))},
       .attrs = box(-1, 1),
       .message = "wants a height and a width of at least 0"},
      {.op = "Crop",
       .inputs = {x, i64(vector({2, 0}))},
       .attrs = box(2, 2),
       .message = "top 2 of image 0 is not in [0, 1], where the box is inside",
       .when_run = true},
      {.op = "Crop",
       .inputs = {x, i32(matrix({{0, 0}, {1, -1}}))},
       .attrs = box(2, 2),
       .message = "left -1 of image 1 is not in [0, 2], where the box is inside",
       .when_run = true},
      {.op = "CropGradient",
       .inputs = {zeros({1, 1, 2, 1}), i64(zeros({2})), zeros({1, 2, 3, 1})},
       .attrs = box(1, 1),
       .message = "wants dy of shape [1, 1, 1, 1], the boxes of [1, 2, 3, 1], got [1, 1, 2, 1]"},
      {.op = "CropGradient",
       .inputs = {zeros({1, 1, 1, 1}), i32(zeros({2})), i32(zeros({1, 2, 3, 1}))},
       .attrs = box(1, 1),
       .message = "wants dy and x_like of one dtype, got f64 and i32"},
      {.op = "CropGradient",
       .inputs = {zeros({1, 1, 1, 1}), i32(vector({0, 3})), zeros({1, 2, 3, 1})},
       .attrs = box(1, 1),
       .message = "left 3 of image 0 is not in [0, 2]",
       .when_run = true}};
}

OpCases cases() {
  const Tensor x = iota({2, 3, 4, 1});
  return {.values = {{.name = "a box of each image",
                      .op = "Crop",
                      .inputs = {x, i64(matrix({{1, 2}, {0, 0}}))},
                      .attrs = box(2, 2),
                      .expected = {values({2, 2, 2, 1}, {6, 7, 10, 11, 12, 13, 16, 17})}},
                     {.name = "one box for all",
                      .op = "Crop",
                      .inputs = {x, i32(vector({1, 1}))},
                      .attrs = box(1, 3),
                      .expected = {values({2, 1, 3, 1}, {5, 6, 7, 17, 18, 19})}},
                     {.name = "all there is",
                      .op = "Crop",
                      .inputs = {x, i32(vector({0, 0}))},
                      .attrs = box(3, 4),
                      .expected = {x}},
                     {.name = "channels",
                      .op = "Crop",
                      .inputs = {iota({1, 2, 2, 3}), i32(vector({0, 1}))},
                      .attrs = box(2, 1),
                      .expected = {values({1, 2, 1, 3}, {3, 4, 5, 9, 10, 11})}},
                     {.name = "nothing",
                      .op = "Crop",
                      .inputs = {x, i32(vector({3, 2}))},
                      .attrs = box(0, 2),
                      .expected = {zeros({2, 0, 2, 1})}},
                     {.name = "no images",
                      .op = "Crop",
                      .inputs = {zeros({0, 3, 4, 1}), zeros({0, 2}, DType::i32)},
                      .attrs = box(1, 2),
                      .expected = {zeros({0, 1, 2, 1})}},
                     {.name = "back into the image",
                      .op = "CropGradient",
                      .inputs = {values({1, 1, 2, 1}, {1, 2}), i32(vector({1, 0})),
                                 zeros({1, 2, 3, 1})},
                      .attrs = box(1, 2),
                      .expected = {values({1, 2, 3, 1}, {0, 0, 0, 1, 2, 0})}},
                     {.name = "back into two images",
                      .op = "CropGradient",
                      .inputs = {values({2, 1, 1, 1}, {1, 2}), i64(matrix({{0, 1}, {1, 0}})),
                                 zeros({2, 2, 2, 1})},
                      .attrs = box(1, 1),
                      .expected = {values({2, 2, 2, 1}, {0, 1, 0, 0, 0, 0, 2, 0})}},
                     {.name = "back from nothing",
                      .op = "CropGradient",
                      .inputs = {zeros({1, 0, 2, 1}), i32(vector({0, 0})), zeros({1, 2, 2, 1})},
                      .attrs = box(0, 2),
                      .expected = {zeros({1, 2, 2, 1})}}},
          .errors = errors()};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Crop takes boxes at offsets that the step brings") { check(cases()); }

}  // namespace troupe

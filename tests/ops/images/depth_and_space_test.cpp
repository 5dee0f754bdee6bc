// SpaceToDepth, DepthToSpace, Crop and its gradient. Expected values are NumPy's.
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

const Table space_to_depth_table("SpaceToDepth and DepthToSpace undo each other", [] {
  const auto block = [](int64_t size) { return Attrs{{"block", size}}; };
  const auto both = [&](std::string name, int64_t size, Tensor image, Tensor deep) {
    return std::vector<OpCase>{Case("SpaceToDepth", name, {image}, {deep}, block(size)),
                               Case("DepthToSpace", name, {deep}, {image}, block(size))};
  };
  OpCases all;
  for (const auto& pair :
       {both("two blocks", 2, iota({1, 2, 4, 1}), values({1, 1, 2, 4}, {0, 1, 4, 5, 2, 3, 6, 7})),
        both("two channels", 2, iota({1, 4, 2, 2}),
             values({1, 2, 1, 8}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})),
        both("two images", 2, iota({2, 4, 2, 1}), iota({2, 2, 1, 4})),
        both("a block of 3", 3, iota({1, 3, 3, 1}), iota({1, 1, 1, 9})),
        both("a block of 1", 1, values({1, 1, 2, 1}, {1, 0}), values({1, 1, 2, 1}, {1, 0})),
        both("no images", 2, zeros({0, 2, 4, 1}), zeros({0, 1, 2, 4})),
        both("no channels", 2, zeros({1, 2, 4, 0}), zeros({1, 1, 2, 0}))})
    for (const OpCase& c : pair) all.values.push_back(c);
  all.errors = {
      Refused("SpaceToDepth", {zeros({1, 3, 4, 1})},
              "cannot cut axis 1 of [1, 3, 4, 1] into blocks of 2; pad it to a multiple", block(2)),
      Refused("SpaceToDepth", {zeros({2, 4, 1})},
              "wants images [batch, height, width, channels], got [", block(2)),
      Refused("SpaceToDepth", {zeros({1, 2, 2, 1})}, "wants a block size from 1 to 65536, got 0",
              block(0)),
      Refused("DepthToSpace", {zeros({1, 2, 2, 6})},
              "cannot make blocks of 2 x 2 pixels of the 6 channels of [1, 2, 2, 6]; their "
              "number must be a multiple of 4",
              block(2)),
      Refused("DepthToSpace", {zeros({2, 4})},
              "wants images [batch, height, width, channels], got [", block(2)),
      Refused("DepthToSpace", {zeros({1, 2, 2, 4})},
              "wants a block size from 1 to 65536, got 100000", block(100000))};
  return all;
});

Attrs box(int64_t height, int64_t width) { return {{"size", Ints{height, width}}}; }

std::vector<OpError> errors() {
  const Tensor x = iota({2, 3, 4, 1});
  return {
      Refused("Crop", {zeros({3, 4, 1}), i32(zeros({2}))},
              "wants images [batch, height, width, channels], got [", box(2, 1)),
      Refused("Crop", {x, i64(zeros({2}))},
              "cuts 4 rows and 1 columns out of [2, 3, 4, 1], which has fewer", box(4, 1)),
      Refused("Crop", {x, i64(zeros({3, 2}))},
              "wants offsets [2], top and left, or [batch, 2], got [3, 2]", box(1, 1)),
      Refused("Crop", {x, i64(zeros({3}))},
              "wants offsets [2], top and left, or [batch, 2], got [3]", box(1, 1)),
      Refused("Crop", {x, zeros({2})}, "wants indices of i32 or i64, got f64; cast them",
              box(1, 1)),
      Refused("Crop", {x, i64(zeros({2}))}, "wants a height and a width of at least 0", box(-1, 1)),
      Refused("Crop", {x, i64(vector({2, 0}))},
              "top 2 of image 0 is not in [0, 1], where the box is inside", box(2, 2))
          .in_step(),
      Refused("Crop", {x, i32(matrix({{0, 0}, {1, -1}}))},
              "left -1 of image 1 is not in [0, 2], where the box is inside", box(2, 2))
          .in_step(),
      Refused("CropGradient", {zeros({1, 1, 2, 1}), i64(zeros({2})), zeros({1, 2, 3, 1})},
              "wants dy of shape [1, 1, 1, 1], the boxes of [1, 2, 3, 1], got [1, 1, 2, 1]",
              box(1, 1)),
      Refused("CropGradient", {zeros({1, 1, 1, 1}), i32(zeros({2})), i32(zeros({1, 2, 3, 1}))},
              "wants dy and x_like of one dtype, got f64 and i32", box(1, 1)),
      Refused("CropGradient", {zeros({1, 1, 1, 1}), i32(vector({0, 3})), zeros({1, 2, 3, 1})},
              "left 3 of image 0 is not in [0, 2]", box(1, 1))
          .in_step()};
}

const Table crop_table("Crop takes boxes at offsets that the step brings", [] {
  const Tensor x = iota({2, 3, 4, 1});
  return table_of(
      "Crop",
      {Case("a box of each image", {x, i64(matrix({{1, 2}, {0, 0}}))},
            {values({2, 2, 2, 1}, {6, 7, 10, 11, 12, 13, 16, 17})}, box(2, 2)),
       Case("one box for all", {x, i32(vector({1, 1}))},
            {values({2, 1, 3, 1}, {5, 6, 7, 17, 18, 19})}, box(1, 3)),
       Case("all there is", {x, i32(vector({0, 0}))}, {x}, box(3, 4)),
       Case("channels", {iota({1, 2, 2, 3}), i32(vector({0, 1}))},
            {values({1, 2, 1, 3}, {3, 4, 5, 9, 10, 11})}, box(2, 1)),
       Case("nothing", {x, i32(vector({3, 2}))}, {zeros({2, 0, 2, 1})}, box(0, 2)),
       Case("no images", {zeros({0, 3, 4, 1}), zeros({0, 2}, DType::i32)}, {zeros({0, 1, 2, 1})},
            box(1, 2)),
       Case("CropGradient", "back into the image",
            {values({1, 1, 2, 1}, {1, 2}), i32(vector({1, 0})), zeros({1, 2, 3, 1})},
            {values({1, 2, 3, 1}, {0, 0, 0, 1, 2, 0})}, box(1, 2)),
       Case("CropGradient", "back into two images",
            {values({2, 1, 1, 1}, {1, 2}), i64(matrix({{0, 1}, {1, 0}})), zeros({2, 2, 2, 1})},
            {values({2, 2, 2, 1}, {0, 1, 0, 0, 0, 0, 2, 0})}, box(1, 1)),
       Case("CropGradient", "back from nothing",
            {zeros({1, 0, 2, 1}), i32(vector({0, 0})), zeros({1, 2, 2, 1})}, {zeros({1, 2, 2, 1})},
            box(0, 2))},
      errors());
});

}  // namespace
}  // namespace troupe

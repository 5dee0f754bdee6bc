// SpaceToDepth and DepthToSpace. Expected values are NumPy's reshape and transpose.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
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
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("SpaceToDepth and DepthToSpace undo each other") { check(cases()); }

}  // namespace troupe

// The sentences of the program captions: places, directions, and scenes in doubt.
#include "apps/captions/sentences.hpp"

#include <doctest/doctest.h>

namespace {

std::string said(const std::vector<Placed>& scene) {
  const auto ids = describe(scene, 96);
  return ids ? sentence(*ids) : "";
}

}  // namespace

TEST_CASE("the first digit has one of nine places") {
  CHECK(said({{7, 16, 16}}) == "a seven at the top left");
  CHECK(said({{7, 48, 16}}) == "a seven at the top");
  CHECK(said({{7, 80, 16}}) == "a seven at the top right");
  CHECK(said({{8, 16, 48}}) == "an eight at the left");
  CHECK(said({{8, 48, 48}}) == "an eight at the middle");
  CHECK(said({{8, 80, 48}}) == "an eight at the right");
  CHECK(said({{0, 16, 80}}) == "a zero at the bottom left");
  CHECK(said({{0, 48, 80}}) == "a zero at the bottom");
  CHECK(said({{0, 80, 80}}) == "a zero at the bottom right");
}

TEST_CASE("a further digit stands in one of five directions") {
  const auto next = [](double x, double y) {
    return said({{1, 16, 48}, {2, x, y}})
        .substr(std::string("a one at the left and a two ").size());
  };
  CHECK(next(20, 10) == "above it");
  CHECK(next(46, 18) == "above right of it");
  CHECK(next(46, 48) == "right of it");
  CHECK(next(46, 78) == "below right of it");
  CHECK(next(20, 86) == "below it");
}

TEST_CASE("\"it\" is the digit before") {
  CHECK(said({{1, 16, 48}, {2, 46, 78}, {3, 56, 16}, {4, 86, 46}}) ==
        "a one at the left and a two below right of it and a three above it and a four below right "
        "of it");
}

TEST_CASE("a scene in doubt has no sentence") {
  CHECK(said({{7, 31, 16}}).empty());                // nearly in the middle third
  CHECK(said({{7, 16, 65.5}}).empty());              // nearly at the bottom
  CHECK(said({{1, 16, 48}, {2, 18, 90}}).empty());   // either may be the first from the left
  CHECK(said({{1, 16, 48}, {2, 46, 60}}).empty());   // 21.8 degrees: right, or below right
  CHECK(said({{1, 16, 48}, {2, 30, 14.}}).empty());  // 67.6 degrees: above, or above right
}

TEST_CASE("the longest sentence has place for its stop") {
  const auto ids =
      describe(std::vector<Placed>{{8, 10, 10}, {8, 30, 30}, {8, 50, 50}, {8, 70, 70}}, 96);
  REQUIRE(ids.has_value());
  CHECK(static_cast<int64_t>(ids->size()) + 1 == kWordsMax);
  CHECK((*ids)[kNamePlace] < static_cast<int64_t>(words().size()));
  CHECK(words()[static_cast<size_t>((*ids)[kNamePlace])] == "eight");
}

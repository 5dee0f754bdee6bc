// l2_normalize.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

BuildCase normalized_over(Ints axes, double epsilon = 1e-12) {
  return [=](Graph&, const std::vector<Output>& in) {
    return std::vector{l2_normalize(in[0], axes, epsilon)};
  };
}

OpCases cases() {
  return table_of(
      "Sqrt",
      {Case("rows", {matrix({{3, 4}, {-5, 12}})},
            {matrix({{0.6, 0.8}, {-0.38461538461538464, 0.9230769230769231}})})
           .made_by(normalized_over({-1})),
       Case("columns", {matrix({{3, -5}, {4, 12}})},
            {matrix({{0.6, -0.38461538461538464}, {0.8, 0.9230769230769231}})})
           .made_by(normalized_over({0})),
       Case("all", {matrix({{1, 1}, {-1, 1}})}, {matrix({{0.5, 0.5}, {-0.5, 0.5}})})
           .made_by(normalized_over({})),
       Case("size one", {vector({-3})}, {vector({-1})}).made_by(normalized_over({0})),
       Case("0 stays 0, with a gradient", {vector({0, 0})}, {vector({0, 0})})
           .made_by(normalized_over({0}, 0.25)),
       Case("short of epsilon", {vector({0.25, -0.125})}, {vector({0.5, -0.25})})
           .made_by(normalized_over({0}, 0.25)),
       Case("NaN spreads in its row", {matrix({{NAN, 1}, {0, 1}})}, {matrix({{NAN, NAN}, {0, 1}})})
           .rough()
           .made_by(normalized_over({-1})),
       Case("empty", {zeros({2, 0})}, {zeros({2, 0})}).made_by(normalized_over({-1}))},
      {Refused({vector({1})}, "wants epsilon > 0, got 0").made_by(normalized_over({0}, 0)),
       Refused({vector({1})}, "axis 1 is not there").made_by(normalized_over({1})),
       Refused({i32(vector({1}))}, "wants f32 or f64, got i32; cast it")
           .made_by(normalized_over({0}))});
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("l2_normalize makes vectors of length 1") { check(cases()); }

}  // namespace troupe

// l2_normalize.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

BuildCase over(std::vector<int64_t> axes, double epsilon = 1e-12) {
  return [=](Graph&, const std::vector<Output>& in) {
    return std::vector{l2_normalize(in[0], axes, epsilon)};
  };
}

OpCases cases() {
  return {
      .values = {{.name = "rows",
                  .op = "Sqrt",
                  .inputs = {matrix({{3, 4}, {-5, 12}})},
                  .expected = {matrix({{0.6, 0.8}, {-0.38461538461538464, 0.9230769230769231}})},
                  .build = over({-1})},
                 {.name = "columns",
                  .op = "Sqrt",
                  .inputs = {matrix({{3, -5}, {4, 12}})},
                  .expected = {matrix({{0.6, -0.38461538461538464}, {0.8, 0.9230769230769231}})},
                  .build = over({0})},
                 {.name = "all",
                  .op = "Sqrt",
                  .inputs = {matrix({{1, 1}, {-1, 1}})},
                  .expected = {matrix({{0.5, 0.5}, {-0.5, 0.5}})},
                  .build = over({})},
                 {.name = "size one",
                  .op = "Sqrt",
                  .inputs = {vector({-3})},
                  .expected = {vector({-1})},
                  .build = over({0})},
                 {.name = "0 stays 0, with a gradient",
                  .op = "Sqrt",
                  .inputs = {vector({0, 0})},
                  .expected = {vector({0, 0})},
                  .build = over({0}, 0.25)},
                 {.name = "short of epsilon",
                  .op = "Sqrt",
                  .inputs = {vector({0.25, -0.125})},
                  .expected = {vector({0.5, -0.25})},
                  .build = over({0}, 0.25)},
                 {.name = "NaN spreads in its row",
                  .op = "Sqrt",
                  .inputs = {matrix({{NAN, 1}, {0, 1}})},
                  .expected = {matrix({{NAN, NAN}, {0, 1}})},
                  .build = over({-1}),
                  .smooth = false},
                 {.name = "empty",
                  .op = "Sqrt",
                  .inputs = {zeros({2, 0})},
                  .expected = {zeros({2, 0})},
                  .build = over({-1})}},
      .errors = {{.op = "Sqrt",
                  .inputs = {vector({1})},
                  .message = "wants epsilon > 0, got 0",
                  .build = over({0}, 0)},
                 {.op = "Sqrt",
                  .inputs = {vector({1})},
                  .message = "axis 1 is not there",
                  .build = over({1})},
                 {.op = "Sqrt",
                  .inputs = {i32(vector({1}))},
                  .message = "wants f32 or f64, got i32; cast it",
                  .build = over({0})}}};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("l2_normalize makes vectors of length 1") { check(cases()); }

}  // namespace troupe

// Mod and FloorDivide.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

const Tensor odd_a = vector({5, -5, 5, -5, INFINITY, 1, 0, -1, NAN, 1, 6, -6});
const Tensor odd_b = vector({INFINITY, INFINITY, -INFINITY, -INFINITY, 2, 0, 0, 0, 1, NAN, -3, 3});

std::vector<OpError> no_zeros(const std::string& op) {
  return {{.op = op,
           .inputs = {i32(vector({1, 2})), i32(vector({1, 0}))},
           .message = "divides an integer by zero: element 1 of b",
           .when_run = true},
          {.op = op,
           .inputs = {u8(vector({1, 2})), u8(scalar(0))},
           .message = "divides an integer by zero: element 0 of b",
           .when_run = true}};
}

OpCases mod_cases() {
  OpCases all = binary_cases(
      "Mod", booleans(zeros({2})),
      {
          {.name = "the sign of the divisor",
           .inputs = {vector({7, -7, 7, -7, 5}), vector({3, 3, -3, -3, 9})},
           .expected = {vector({1, 2, -2, -1, 5})}},
          {.name = "broken numbers",
           .inputs = {vector({5.5, -0.25, 2.25}), vector({2, 1, -0.5})},
           .expected = {vector({1.5, 0.75, -0.25})}},
          {.name = "nothing is left",
           .inputs = {vector({6, 0, -6, 6}), vector({3, 2, 3, -1})},
           .expected = {vector({0, 0, 0, 0})},
           .smooth = false},
          {.name = "size one", .inputs = {vector({9}), vector({4})}, .expected = {vector({1})}},
          {.name = "rows by a row",
           .inputs = {matrix({{7, 8}, {9, 11}}), vector({4, 5})},
           .expected = {matrix({{3, 3}, {1, 1}})}},
          {.name = "a scalar by every element",
           .inputs = {scalar(17), vector({3, 5, 12})},
           .expected = {vector({2, 2, 5})}},
          {.name = "a remainder is exact",
           .inputs = {vector({1, 0.3, -1})},
           .expected = {vector({0.09999999999999995, 0.09999999999999998, 5.551115123125783e-17})},
           .tolerance = 0,
           .build =
               [](Graph& graph, const std::vector<Output>& x) {
                 return std::vector{mod(x[0], fill(graph, {}, 0.1, DType::f64))};
               },
           .as_written = true,
           .smooth = false},
          {.name = "zeros and what is not finite",
           .inputs = {odd_a, odd_b},
           .expected = {vector({5, INFINITY, -INFINITY, -5, NAN, NAN, NAN, NAN, NAN, NAN, 0, 0})},
           .smooth = false},
          {.name = "the least integer",
           .inputs = {i32(vector({-2147483648.0, -2147483647, 7, 2147483647})),
                      i32(vector({-1, 2147483647, -2147483648.0, -2147483648.0}))},
           .expected = {i32(vector({0, 0, -2147483641, -1}))},
           .as_written = true},
      });
  for (const OpError& e : no_zeros("Mod")) all.errors.push_back(e);
  return all;
}
const ListedCases listed_mod(mod_cases);

OpCases floor_divide_cases() {
  OpCases all =
      binary_cases(
          "FloorDivide", booleans(zeros({2})),
          {
              {.name = "down, whatever the signs",
               .inputs = {vector({7, -7, 7, -7, 5}), vector({3, 3, -3, -3, 9})},
               .expected = {vector({2, -3, -3, 2, 0})}},
              {.name = "broken numbers",
               .inputs = {vector({5.5, -0.25, 2.25}), vector({2, 1, -0.5})},
               .expected = {vector({2, -1, -5})}},
              {.name = "nothing is left",
               .inputs = {vector({6, 0, -6, 6}), vector({3, 2, 3, -1})},
               .expected = {vector({2, 0, -2, -6})},
               .smooth = false},
              {.name = "size one", .inputs = {vector({9}), vector({4})}, .expected = {vector({2})}},
              {.name = "rows by a row",
               .inputs = {matrix({{7, 8}, {9, 11}}), vector({4, 5})},
               .expected = {matrix({{1, 1}, {2, 2}})}},
              {.name = "a scalar by every element",
               .inputs = {scalar(17), vector({3, 5, 12})},
               .expected = {vector({5, 3, 1})}},
              {.name = "0.1 is a bit more than a tenth",
               .inputs = {vector({1, 0.3, -1})},
               .expected = {vector({9, 2, -10})},
               .build =
                   [](Graph& graph, const std::vector<Output>& x) {
                     return std::vector{floor_divide(x[0], fill(graph, {}, 0.1, DType::f64))};
                   },
               .as_written = true,
               .smooth = false},
              {.name = "zeros and what is not finite",
               .inputs = {odd_a, odd_b},
               .expected = {vector(
                   {0, -1, -1, 0, NAN, INFINITY, NAN, -INFINITY, NAN, NAN, -2, -2})},
               .smooth = false},
              {.name = "the least integer",
               .inputs = {i32(vector({-2147483648.0, -2147483647, 7, -2147483648.0})),
                          i32(vector({-1, 2147483647, -2147483648.0, 2}))},
               .expected = {i32(vector({-2147483648.0, -1, -1, -1073741824}))},
               .as_written = true},
          });
  for (const OpError& e : no_zeros("FloorDivide")) all.errors.push_back(e);
  return all;
}
const ListedCases listed_floor_divide(floor_divide_cases);

}  // namespace

TEST_CASE("Mod has the sign of the divisor") { check(mod_cases()); }

TEST_CASE("FloorDivide rounds down") { check(floor_divide_cases()); }

}  // namespace troupe

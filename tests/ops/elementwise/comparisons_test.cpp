// NotEqual, Less, LessEqual and GreaterEqual.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

const Tensor some_a = vector({3, 1, 2, 0, 3}), some_b = vector({2, 2, 2, 1, 3});
const Tensor broken_a = vector({-2, 0.5, -0.0}), broken_b = vector({-2, 0.25, 0});
const Tensor odd_a = vector({NAN, 1, NAN, INFINITY, -INFINITY, INFINITY});
const Tensor odd_b = vector({1, NAN, NAN, 1, 1, INFINITY});

// The four tables have the same inputs.
struct Expected {
  std::string op;
  Tensor refused;
  Tensor some, broken, odd, rows, against_two;
};

OpCases comparison(const Expected& e) {
  return binary_cases(
      e.op, e.refused,
      {
          {.name = "same shape", .inputs = {some_a, some_b}, .expected = {booleans(e.some)}},
          {.name = "negative and broken numbers",
           .inputs = {broken_a, broken_b},
           .expected = {booleans(e.broken)}},
          {.name = "NaN and infinity", .inputs = {odd_a, odd_b}, .expected = {booleans(e.odd)}},
          {.name = "rows with a row",
           .inputs = {matrix({{1, 0}, {0, 1}}), vector({1, 1})},
           .expected = {booleans(e.rows)}},
          {.name = "with a scalar",
           .inputs = {vector({1, 2, 3}), scalar(2)},
           .expected = {booleans(e.against_two)}},
          {.name = "size one",
           .inputs = {vector({-1}), vector({1})},
           .expected = {booleans(vector({e.op == "GreaterEqual" ? 0.0 : 1.0}))}},
      });
}

OpCases not_equal_cases() {
  return comparison({.op = "NotEqual",
                     .refused = {},
                     .some = vector({1, 1, 0, 1, 0}),
                     .broken = vector({0, 1, 0}),
                     .odd = vector({1, 1, 1, 1, 1, 0}),
                     .rows = matrix({{0, 1}, {1, 0}}),
                     .against_two = vector({1, 0, 1})});
}
const ListedCases listed_not_equal(not_equal_cases);

OpCases less_cases() {
  return comparison({.op = "Less",
                     .refused = booleans(zeros({2})),
                     .some = vector({0, 1, 0, 1, 0}),
                     .broken = vector({0, 0, 0}),
                     .odd = vector({0, 0, 0, 0, 1, 0}),
                     .rows = matrix({{0, 1}, {1, 0}}),
                     .against_two = vector({1, 0, 0})});
}
const ListedCases listed_less(less_cases);

OpCases less_equal_cases() {
  return comparison({.op = "LessEqual",
                     .refused = booleans(zeros({2})),
                     .some = vector({0, 1, 1, 1, 1}),
                     .broken = vector({1, 0, 1}),
                     .odd = vector({0, 0, 0, 0, 1, 1}),
                     .rows = matrix({{1, 1}, {1, 1}}),
                     .against_two = vector({1, 1, 0})});
}
const ListedCases listed_less_equal(less_equal_cases);

OpCases greater_equal_cases() {
  return comparison({.op = "GreaterEqual",
                     .refused = booleans(zeros({2})),
                     .some = vector({1, 0, 1, 0, 1}),
                     .broken = vector({1, 1, 1}),
                     .odd = vector({0, 0, 0, 1, 0, 1}),
                     .rows = matrix({{1, 0}, {0, 1}}),
                     .against_two = vector({0, 1, 1})});
}
const ListedCases listed_greater_equal(greater_equal_cases);

}  // namespace

TEST_CASE("NotEqual differs, also from NaN") { check(not_equal_cases()); }
TEST_CASE("Less compares, and NaN is less than nothing") { check(less_cases()); }
TEST_CASE("LessEqual compares, and is false beside NaN") { check(less_equal_cases()); }
TEST_CASE("GreaterEqual compares, and is false beside NaN") { check(greater_equal_cases()); }

}  // namespace troupe

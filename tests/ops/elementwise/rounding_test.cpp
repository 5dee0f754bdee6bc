// Floor, Ceil, Round and Trunc.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

// What `op` makes of {{1.25, -1.75}, {0.25, -0.25}}, of 2.75, and of numbers that are halves, 3 and
// -4. What has no fraction is left alone by all of them.
OpCases rounding_cases(const std::string& op, const Tensor& of_matrix, double of_one,
                       const Tensor& of_halves) {
  return unary_cases(
      op, i32(zeros({2})),
      {
          {.name = "a matrix",
           .inputs = {matrix({{1.25, -1.75}, {0.25, -0.25}})},
           .expected = {of_matrix}},
          {.name = "size one", .inputs = {vector({2.75})}, .expected = {vector({of_one})}},
          {.name = "integers and halves",
           .inputs = {vector({0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 3, -4})},
           .expected = {of_halves},
           .smooth = false},
          {.name = "zero, infinities and NaN",
           .inputs = {vector({0, INFINITY, -INFINITY, NAN})},
           .expected = {vector({0, INFINITY, -INFINITY, NAN})},
           .smooth = false},
          {.name = "past the last fraction of f64",
           .inputs = {vector({0x1p52 + 1, -0x1p53, 1e300})},
           .expected = {vector({0x1p52 + 1, -0x1p53, 1e300})},
           .smooth = false},
      });
}

OpCases floor_cases() {
  return rounding_cases("Floor", matrix({{1, -2}, {0, -1}}), 2,
                        vector({0, 1, 2, -1, -2, -3, 3, -4}));
}
const ListedCases listed_floor(floor_cases);

OpCases ceil_cases() {
  return rounding_cases("Ceil", matrix({{2, -1}, {1, 0}}), 3, vector({1, 2, 3, 0, -1, -2, 3, -4}));
}
const ListedCases listed_ceil(ceil_cases);

OpCases round_cases() {
  return rounding_cases("Round", matrix({{1, -2}, {0, 0}}), 3, vector({0, 2, 2, 0, -2, -2, 3, -4}));
}
const ListedCases listed_round(round_cases);

OpCases trunc_cases() {
  return rounding_cases("Trunc", matrix({{1, -1}, {0, 0}}), 2, vector({0, 1, 2, 0, -1, -2, 3, -4}));
}
const ListedCases listed_trunc(trunc_cases);

}  // namespace

TEST_CASE("Floor rounds down") { check(floor_cases()); }

TEST_CASE("Ceil rounds up") { check(ceil_cases()); }

TEST_CASE("Round rounds to nearest, halves to even") { check(round_cases()); }

TEST_CASE("Trunc rounds towards zero") { check(trunc_cases()); }

TEST_CASE("what is rounded to zero keeps its sign") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, Shape{-1});
  const FedValues feeds = {{x, vector({-0.0, -0.25, 0.0, 0.25})}};
  const auto signs = [&](Output y) {
    std::vector<bool> list;
    const Tensor got = evaluate(y, feeds);
    for (double value : got.values<double>()) list.push_back(std::signbit(value));
    return list;
  };
  const std::vector<bool> as_they_were = {true, true, false, false};
  CHECK(signs(floor(x)) == as_they_were);
  CHECK(signs(ceil(x)) == as_they_were);
  CHECK(signs(round(x)) == as_they_were);
  CHECK(signs(trunc(x)) == as_they_were);
}

}  // namespace troupe

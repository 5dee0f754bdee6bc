// Atan2 and Hypot: the angle and the length of a point.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

constexpr double kPi = 3.141592653589793;

OpCases atan2_cases() {
  return binary_cases(
      "Atan2", i32(zeros({2})),
      {
          {.name = "every quarter",
           .inputs = {vector({1, 1, -1, -1}), vector({1, -1, -1, 1})},
           .expected = {vector({kPi / 4, 3 * kPi / 4, -3 * kPi / 4, -kPi / 4})}},
          {.name = "broken numbers",
           .inputs = {vector({0.5, -3}), vector({2, 0.25})},
           .expected = {vector({0.24497866312686416, -1.4876550949064554})}},
          {.name = "size one",
           .inputs = {vector({2}), vector({0})},
           .expected = {vector({kPi / 2})}},
          {.name = "rows with a row",
           .inputs = {matrix({{1, 1}, {-1, 0.5}}), vector({-1, 2})},
           .expected = {matrix({{2.356194490192345, 0.4636476090008061},
                                {-2.356194490192345, 0.24497866312686416}})}},
          {.name = "a scalar with every element",
           .inputs = {scalar(1), vector({1, -1})},
           .expected = {vector({kPi / 4, 3 * kPi / 4})}},
          {.name = "zeros and their signs",
           .inputs = {vector({0.0, -0.0, 0.0, -0.0, 1, -1}), vector({-1, -1, -0.0, -0.0, 0, 0})},
           .expected = {vector({kPi, -kPi, kPi, -kPi, kPi / 2, -kPi / 2})},
           .smooth = false},
          {.name = "infinities and NaN",
           .inputs = {vector({INFINITY, INFINITY, 1, 1, NAN, 1}),
                      vector({INFINITY, -INFINITY, INFINITY, -INFINITY, 1, NAN})},
           .expected = {vector({kPi / 4, 3 * kPi / 4, 0, kPi, NAN, NAN})},
           .smooth = false},
      });
}
const ListedCases listed_atan2(atan2_cases);

OpCases hypot_cases() {
  return binary_cases(
      "Hypot", i32(zeros({2})),
      {
          {.name = "same shape",
           .inputs = {vector({3, -5, 0.5}), vector({4, 12, 0.25})},
           .expected = {vector({5, 13, 0.5590169943749475})}},
          {.name = "size one", .inputs = {vector({3}), vector({-4})}, .expected = {vector({5})}},
          {.name = "rows with a row",
           .inputs = {matrix({{3, 5}, {6, 9}}), vector({4, 12})},
           .expected = {matrix({{5, 13}, {7.211102550927978, 15}})}},
          {.name = "a scalar with every element",
           .inputs = {scalar(12), vector({5, 9})},
           .expected = {vector({13, 15})}},
          {.name = "squares that f64 cannot hold",
           .inputs = {vector({1e200, 3e-200}), vector({1e200, 4e-200})},
           .expected = {vector({1.414213562373095e200, 5e-200})},
           .smooth = false},
          {.name = "squares that f32 cannot hold",
           .inputs = {vector({3e30, 3e-30}), vector({4e30, 4e-30})},
           .expected = {vector({5e30, 5e-30})},
           .smooth = false},
          {.name = "the origin, infinities and NaN",
           .inputs = {vector({0, INFINITY, NAN, NAN, -INFINITY}), vector({0, 1, INFINITY, 1, NAN})},
           .expected = {vector({0, INFINITY, INFINITY, NAN, INFINITY})},
           .smooth = false},
      });
}
const ListedCases listed_hypot(hypot_cases);

}  // namespace

TEST_CASE("Atan2 is the angle of a point") { check(atan2_cases()); }

TEST_CASE("Hypot is the distance of a point from the origin") { check(hypot_cases()); }

TEST_CASE("tiny lengths are not lost") {
  Graph graph;
  const Output a = placeholder(graph, DType::f32, Shape{}), b = placeholder(graph, DType::f32, {});
  const double c =
      evaluate(hypot(a, b), {{a, f32(scalar(3e-30))}, {b, f32(scalar(4e-30))}}).item<float>();
  CHECK(std::abs(c / 5e-30 - 1) < 1e-6);
}

TEST_CASE("the gradient of Hypot is 0 at the origin") {
  Graph graph;
  const Output a = placeholder(graph, DType::f64, Shape{2}),
               b = placeholder(graph, DType::f64, {2});
  const auto slopes = gradients({hypot(a, b)}, {a, b});
  const FedValues feeds = {{a, vector({0, 3})}, {b, vector({0, 4})}};
  CHECK(!difference(evaluate(slopes[0], feeds), vector({0, 0.6})));
  CHECK(!difference(evaluate(slopes[1], feeds), vector({0, 0.8})));
}

}  // namespace troupe

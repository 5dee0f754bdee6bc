// Exp.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return unary_cases("Exp", i32(zeros({2})),
                     {
                         {.name = "a matrix",
                          .inputs = {matrix({{0, 1}, {-1, 2.5}})},
                          .expected = {matrix({{1, 2.718281828459045},
                                               {0.36787944117144233, 12.182493960703473}})}},
                         {.name = "size one",
                          .inputs = {vector({0.1})},
                          .expected = {vector({1.1051709180756477})}},
                         {.name = "100, which f32 cannot hold",
                          .inputs = {vector({100})},
                          .expected = {vector({2.6881171418161356e43})},
                          .smooth = false},
                         {.name = "-400, which f32 calls 0",
                          .inputs = {vector({-400})},
                          .expected = {vector({1.9151695967140057e-174})},
                          .smooth = false},
                         {.name = "past f64 as well",
                          .inputs = {vector({1000, -1000})},
                          .expected = {vector({INFINITY, 0})},
                          .smooth = false},
                         {.name = "infinities and NaN",
                          .inputs = {vector({INFINITY, -INFINITY, NAN})},
                          .expected = {vector({INFINITY, 0, NAN})},
                          .smooth = false},
                     });
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Exp is e to the x, from underflow to overflow") { check(cases()); }

TEST_CASE("the value of an element does not depend on where it stands") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, Shape{-1});
  for (const Output y : {exp(x), log(x), tanh(x), sigmoid(x)}) {
    CAPTURE(y.name());
    const Tensor alone = evaluate(y, {{x, f32(full({1}, 0.3))}});
    const Tensor many = evaluate(y, {{x, f32(full({53}, 0.3))}});
    for (float value : many.values<float>()) CHECK(value == alone.item<float>());
  }
}

}  // namespace troupe

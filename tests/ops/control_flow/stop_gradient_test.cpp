// StopGradient.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return {.values =
              {
                  {.name = "a matrix",
                   .op = "StopGradient",
                   .inputs = {matrix({{1, 0}, {1, 1}})},
                   .expected = {matrix({{1, 0}, {1, 1}})}},
                  {.name = "NaN stays NaN",
                   .op = "StopGradient",
                   .inputs = {vector({NAN, -0.5})},
                   .expected = {vector({NAN, -0.5})},
                   .smooth = false},
                  {.name = "size one",
                   .op = "StopGradient",
                   .inputs = {vector({1})},
                   .expected = {vector({1})}},
                  {.name = "empty",
                   .op = "StopGradient",
                   .inputs = {zeros({0, 2})},
                   .expected = {zeros({0, 2})}},
                  {.name = "any numbers",
                   .op = "StopGradient",
                   .inputs = {vector({1.5, -2})},
                   .expected = {vector({1.5, -2})}},
              },
          .errors = {
              {.op = "StopGradient",
               .inputs = {zeros({1}), zeros({1})},
               .message = "wants 1 input (x), got 2"},
          }};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("StopGradient passes its input on") { check(cases()); }

TEST_CASE("no gradient flows back through stop_gradient") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, Shape{});
  CHECK(!gradients({stop_gradient(x)}, {x})[0].defined());
  const Output dx = gradients({multiply(x, stop_gradient(x))}, {x})[0];  // x times a constant
  CHECK(evaluate(dx, {{x, scalar(3)}}).item<double>() == 3);
}

}  // namespace troupe

// StopGradient.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return table_of("StopGradient",
                  {
                      Case("a matrix", {matrix({{1, 0}, {1, 1}})}, {matrix({{1, 0}, {1, 1}})}),
                      Case("NaN stays NaN", {vector({NAN, -0.5})}, {vector({NAN, -0.5})}).rough(),
                      Case("size one", {vector({1})}, {vector({1})}),
                      Case("empty", {zeros({0, 2})}, {zeros({0, 2})}),
                      Case("any numbers", {vector({1.5, -2})}, {vector({1.5, -2})}),
                  },
                  {
                      Refused({zeros({1}), zeros({1})}, "wants 1 input (x), got 2"),
                  });
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

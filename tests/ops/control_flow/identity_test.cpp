// Identity.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return table_of("Identity",
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

TEST_CASE("Identity passes its input on") { check(cases()); }

TEST_CASE("identity shares its input's memory, and has the name it was given") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, Shape{2});
  const Output y = identity(x, "result");
  CHECK(y.name() == "result");
  const Tensor value = f32(vector({1, 2}));
  CHECK(evaluate(y, {{x, value}}).raw() == value.raw());
}

}  // namespace troupe

// Identity.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return {.values =
              {
                  {.name = "a matrix",
                   .op = "Identity",
                   .inputs = {matrix({{1, 0}, {1, 1}})},
                   .expected = {matrix({{1, 0}, {1, 1}})}},
                  {.name = "NaN stays NaN",
                   .op = "Identity",
                   .inputs = {vector({NAN, -0.5})},
                   .expected = {vector({NAN, -0.5})},
                   .smooth = false},
                  {.name = "size one",
                   .op = "Identity",
                   .inputs = {vector({1})},
                   .expected = {vector({1})}},
                  {.name = "empty",
                   .op = "Identity",
                   .inputs = {zeros({0, 2})},
                   .expected = {zeros({0, 2})}},
                  {.name = "any numbers",
                   .op = "Identity",
                   .inputs = {vector({1.5, -2})},
                   .expected = {vector({1.5, -2})}},
              },
          .errors = {
              {.op = "Identity",
               .inputs = {zeros({1}), zeros({1})},
               .message = "wants 1 input (x), got 2"},
          }};
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

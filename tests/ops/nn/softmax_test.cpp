// Softmax over the last dimension.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  const double a = 0.09003057317038046, b = 0.24472847105479764, c = 0.6652409557748218;
  return {.values = {{.name = "a row",
                      .op = "Softmax",
                      .inputs = {vector({1, 2, 3})},
                      .expected = {vector({a, b, c})}},
                     {.name = "each row by itself",
                      .op = "Softmax",
                      .inputs = {matrix({{1, 2, 3}, {10, 12, 11}})},
                      .expected = {matrix({{a, b, c}, {a, c, b}})}},
                     {.name = "three dimensions",
                      .op = "Softmax",
                      .inputs = {values({2, 1, 2}, {0, 0, 5, 5})},
                      .expected = {full({2, 1, 2}, 0.5)}},
                     {.name = "one class",
                      .op = "Softmax",
                      .inputs = {matrix({{-7}})},
                      .expected = {matrix({{1}})}},
                     {.name = "more than a vector register, and a rest",
                      .op = "Softmax",
                      .inputs = {full({2, 37}, -3)},
                      .expected = {full({2, 37}, 1.0 / 37)}},
                     {.name = "800 and -800",
                      .op = "Softmax",
                      .inputs = {matrix({{800, -800}, {-800, -800}, {800, 800}})},
                      .expected = {matrix({{1, 0}, {0.5, 0.5}, {0.5, 0.5}})},
                      .smooth = false},
                     {.name = "impossible classes",
                      .op = "Softmax",
                      .inputs = {vector({-INFINITY, 0, -INFINITY})},
                      .expected = {vector({0, 1, 0})},
                      .smooth = false},
                     {.name = "NaN spreads in its row only",
                      .op = "Softmax",
                      .inputs = {matrix({{NAN, 1}, {1, 1}})},
                      .expected = {matrix({{NAN, NAN}, {0.5, 0.5}})},
                      .smooth = false},
                     {.name = "no rows",
                      .op = "Softmax",
                      .inputs = {zeros({0, 3})},
                      .expected = {zeros({0, 3})}},
                     {.name = "no classes",
                      .op = "Softmax",
                      .inputs = {zeros({3, 0})},
                      .expected = {zeros({3, 0})}}},
          .errors = {{.op = "Softmax",
                      .inputs = {scalar(1)},
                      .message = "wants logits [..., classes], got a scalar"},
                     {.op = "Softmax",
                      .inputs = {i32(vector({1}))},
                      .message = "has no kernel for i32; cast to one of f32, f64"}}};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Softmax turns logits into probabilities") { check(cases()); }

TEST_CASE("a row's probabilities do not depend on where it stands") {
  Graph graph;
  const Tensor row = f32(iota({1, 10}, 0.1, 0.37));
  Tensor many = Tensor::empty(DType::f32, {7, 10});
  for (int i = 0; i < 7; ++i)
    std::copy_n(row.data<float>(), 10, many.mutable_data<float>() + 10 * i);
  const Tensor one = evaluate(softmax(constant(graph, row)));
  const Tensor all = evaluate(softmax(constant(graph, many)));
  for (int i = 0; i < 7; ++i) CHECK(same_bits(all.rows(i, i + 1), one));
}

}  // namespace troupe

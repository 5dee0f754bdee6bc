// Softmax over the last dimension.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  const double a = 0.09003057317038046, b = 0.24472847105479764, c = 0.6652409557748218;
  return table_of(
      "Softmax",
      {Case("a row", {vector({1, 2, 3})}, {vector({a, b, c})}),
       Case("each row by itself", {matrix({{1, 2, 3}, {10, 12, 11}})},
            {matrix({{a, b, c}, {a, c, b}})}),
       Case("three dimensions", {values({2, 1, 2}, {0, 0, 5, 5})}, {full({2, 1, 2}, 0.5)}),
       Case("one class", {matrix({{-7}})}, {matrix({{1}})}),
       Case("more than a vector register, and a rest", {full({2, 37}, -3)},
            {full({2, 37}, 1.0 / 37)}),
       Case("800 and -800", {matrix({{800, -800}, {-800, -800}, {800, 800}})},
            {matrix({{1, 0}, {0.5, 0.5}, {0.5, 0.5}})})
           .rough(),
       Case("impossible classes", {vector({-INFINITY, 0, -INFINITY})}, {vector({0, 1, 0})}).rough(),
       Case("NaN spreads in its row only", {matrix({{NAN, 1}, {1, 1}})},
            {matrix({{NAN, NAN}, {0.5, 0.5}})})
           .rough(),
       Case("no rows", {zeros({0, 3})}, {zeros({0, 3})}),
       Case("no classes", {zeros({3, 0})}, {zeros({3, 0})})},
      {Refused({scalar(1)}, "wants logits [..., classes], got a scalar"),
       Refused({i32(vector({1}))}, "has no kernel for i32; cast to one of f32, f64")});
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

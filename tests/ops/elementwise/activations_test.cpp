// Activations made of pieces: Relu6, LeakyRelu, Elu, Selu, Softsign and HardSigmoid.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases relu6_cases() {
  return unary_cases("Relu6", booleans(zeros({2})),
                     {
                         {.name = "a matrix",
                          .inputs = {matrix({{1, -2}, {7, 4}})},
                          .expected = {matrix({{1, 0}, {6, 4}})}},
                         {.name = "size one", .inputs = {vector({3})}, .expected = {vector({3})}},
                         {.name = "fractions",
                          .inputs = {vector({0.25, 5.75, 6.25, -0.5})},
                          .expected = {vector({0.25, 5.75, 6, 0})}},
                         {.name = "the kinks, infinities and NaN",
                          .inputs = {vector({0, 6, INFINITY, -INFINITY, NAN})},
                          .expected = {vector({0, 6, 6, 0, NAN})},
                          .smooth = false},
                     });
}
const ListedCases listed_relu6(relu6_cases);

OpCases leaky_relu_cases() {
  OpCases cases = unary_cases("LeakyRelu", i32(zeros({2})),
                              {
                                  {.name = "a matrix",
                                   .inputs = {matrix({{1, -2}, {0.5, -4}})},
                                   .expected = {matrix({{1, -0.4}, {0.5, -0.8}})}},
                                  {.name = "size one",
                                   .inputs = {vector({-3})},
                                   .expected = {vector({-0.6000000000000001})}},
                                  {.name = "another slope",
                                   .inputs = {matrix({{1, -2}, {0.5, -4}})},
                                   .attrs = {{"alpha", 0.01}},
                                   .expected = {matrix({{1, -0.02}, {0.5, -0.04}})}},
                                  {.name = "a slope above one",
                                   .inputs = {matrix({{1, -2}, {0.5, -4}})},
                                   .attrs = {{"alpha", 2.0}},
                                   .expected = {matrix({{1, -4}, {0.5, -8}})}},
                                  {.name = "a slope below zero",
                                   .inputs = {matrix({{1, -2}, {0.5, -4}})},
                                   .attrs = {{"alpha", -1.0}},
                                   .expected = {matrix({{1, 2}, {0.5, 4}})}},
                                  {.name = "zero, infinities and NaN",
                                   .inputs = {vector({0, INFINITY, -INFINITY, NAN})},
                                   .expected = {vector({0, INFINITY, -INFINITY, NAN})},
                                   .smooth = false},
                              });
  cases.errors.push_back({.op = "LeakyRelu",
                          .inputs = {zeros({2})},
                          .attrs = {{"alpha", INFINITY}},
                          .message = "wants a finite alpha, got inf"});
  return cases;
}
const ListedCases listed_leaky_relu(leaky_relu_cases);

OpCases elu_cases() {
  OpCases cases = unary_cases(
      "Elu", i32(zeros({2})),
      {
          {.name = "a matrix",
           .inputs = {matrix({{1, -2}, {0.5, -4}})},
           .expected = {matrix({{1, -0.8646647167633873}, {0.5, -0.9816843611112658}})}},
          {.name = "size one",
           .inputs = {vector({-0.25})},
           .expected = {vector({-0.22119921692859512})}},
          {.name = "another alpha",
           .inputs = {matrix({{1, -2}, {0.5, -4}})},
           .attrs = {{"alpha", 2.5}},
           .expected = {matrix({{1, -2.161661791908468}, {0.5, -2.4542109027781644}})}},
          {.name = "close to zero",
           .inputs = {vector({-1e-10, 1e-10})},
           .expected = {vector({-9.999999999500001e-11, 1e-10})},
           .tolerance = 1e-24,
           .as_written = true,
           .smooth = false},
          {.name = "far from zero",
           .inputs = {vector({-100, 1000})},
           .expected = {vector({-1, 1000})}},
          {.name = "zero, infinities and NaN",
           .inputs = {vector({0, INFINITY, -INFINITY, NAN})},
           .expected = {vector({0, INFINITY, -1, NAN})},
           .smooth = false},
      });
  cases.errors.push_back({.op = "Elu",
                          .inputs = {zeros({2})},
                          .attrs = {{"alpha", INFINITY}},
                          .message = "wants a finite alpha, got inf"});
  return cases;
}
const ListedCases listed_elu(elu_cases);

OpCases selu_cases() {
  return unary_cases("Selu", i32(zeros({2})),
                     {
                         {.name = "a matrix",
                          .inputs = {matrix({{1, -2}, {0.5, -4}})},
                          .expected = {matrix({{1.0507009873554805, -1.520166468595695},
                                               {0.5253504936777402, -1.7258986281898947}})}},
                         {.name = "size one",
                          .inputs = {vector({-0.25})},
                          .expected = {vector({-0.38889019747811904})}},
                         {.name = "close to zero",
                          .inputs = {vector({-1e-10, 1e-10})},
                          .expected = {vector({-1.7580993407594719e-10, 1.0507009873554805e-10})},
                          .tolerance = 1e-24,
                          .as_written = true,
                          .smooth = false},
                         {.name = "far from zero",
                          .inputs = {vector({-100, 1000})},
                          .expected = {vector({-1.7580993408473768, 1050.7009873554805})}},
                         {.name = "zero, infinities and NaN",
                          .inputs = {vector({0, INFINITY, -INFINITY, NAN})},
                          .expected = {vector({0, INFINITY, -1.7580993408473768, NAN})},
                          .smooth = false},
                     });
}
const ListedCases listed_selu(selu_cases);

OpCases softsign_cases() {
  return unary_cases(
      "Softsign", i32(zeros({2})),
      {
          {.name = "a matrix",
           .inputs = {matrix({{1, -2}, {0.5, -4}})},
           .expected = {matrix({{0.5, -0.6666666666666666}, {0.3333333333333333, -0.8}})}},
          {.name = "size one", .inputs = {vector({-0.25})}, .expected = {vector({-0.2})}},
          {.name = "zero", .inputs = {vector({0})}, .expected = {vector({0})}, .smooth = false},
          {.name = "huge",
           .inputs = {vector({1e30, -1e300})},
           .expected = {vector({1, -1})},
           .smooth = false},
          {.name = "infinities and NaN",
           .inputs = {vector({INFINITY, -INFINITY, NAN})},
           .expected = {vector({1, -1, NAN})},
           .smooth = false},
      });
}
const ListedCases listed_softsign(softsign_cases);

OpCases hard_sigmoid_cases() {
  return unary_cases("HardSigmoid", i32(zeros({2})),
                     {
                         {.name = "a matrix",
                          .inputs = {matrix({{1, -2}, {0.5, -4}})},
                          .expected = {matrix({{0.6666666666666666, 0.16666666666666666},
                                               {0.5833333333333334, 0}})}},
                         {.name = "size one",
                          .inputs = {vector({-0.25})},
                          .expected = {vector({0.4583333333333333})}},
                         {.name = "saturated",
                          .inputs = {vector({5, -5, 100, -100})},
                          .expected = {vector({1, 0, 1, 0})}},
                         {.name = "the kinks, infinities and NaN",
                          .inputs = {vector({3, -3, INFINITY, -INFINITY, NAN})},
                          .expected = {vector({1, 0, 1, 0, NAN})},
                          .smooth = false},
                     });
}
const ListedCases listed_hard_sigmoid(hard_sigmoid_cases);

}  // namespace

TEST_CASE("Relu6 cuts off below zero and above six") { check(relu6_cases()); }

TEST_CASE("LeakyRelu keeps a part of what is below zero") { check(leaky_relu_cases()); }

TEST_CASE("Elu ends at -alpha") { check(elu_cases()); }

TEST_CASE("Selu is a scaled Elu") { check(selu_cases()); }

TEST_CASE("Softsign saturates at one") { check(softsign_cases()); }

TEST_CASE("HardSigmoid is a line between zero and one") { check(hard_sigmoid_cases()); }

TEST_CASE("an alpha is an argument with a default") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, Shape{});
  const FedValues feeds = {{x, scalar(-1)}};
  CHECK(evaluate(leaky_relu(x), feeds).item<double>() == -0.2);
  CHECK(evaluate(leaky_relu(x, 0.5), feeds).item<double>() == -0.5);
  const double one = evaluate(elu(x), feeds).item<double>();
  CHECK(evaluate(elu(x, 2), feeds).item<double>() == 2 * one);
}

}  // namespace troupe

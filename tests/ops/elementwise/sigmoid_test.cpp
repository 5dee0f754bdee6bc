// Sigmoid.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return unary_cases(
      "Sigmoid", i32(zeros({2})),
      {
          {.name = "a matrix",
           .inputs = {matrix({{0, 1}, {-1, 0.25}})},
           .expected = {matrix(
               {{0.5, 0.7310585786300049}, {0.2689414213699951, 0.5621765008857981}})}},
          {.name = "size one", .inputs = {vector({2})}, .expected = {vector({0.8807970779778823})}},
          {.name = "100 either way",
           .inputs = {vector({100, -100})},
           .expected = {vector({1, 3.720075976020836e-44})}},
          {.name = "infinities and NaN",
           .inputs = {vector({INFINITY, -INFINITY, NAN})},
           .expected = {vector({1, 0, NAN})},
           .smooth = false},
      });
}
const ListedCases listed(cases);

}  // namespace

// Expected values are e^x / (1 + e^x) in 30 decimals.
TEST_CASE("Sigmoid goes on below the least normal number, and is 0 only where nothing is left") {
  Graph graph;
  const Tensor x = Tensor::of<float>({-87.5F, -88.5F, -89, -95, -100, -110, -1e30F}, {7});
  const Tensor y = evaluate(sigmoid(constant(graph, x)));
  const double least = std::numeric_limits<float>::denorm_min();
  const std::vector<double> wanted = {
      9.982350931e-39, 3.672301682e-39, 2.227363562e-39, 5.521082277e-42, 3.720075976e-44, 0, 0};
  for (size_t i = 0; i < wanted.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(double{y.values<float>()[i]} - wanted[i]) <= least + 4e-7 * wanted[i]);
  }
  const Tensor wide = Tensor::of<double>({-709.5, -720, -745, -750, 700, 750}, {6});
  const auto got = evaluate(sigmoid(constant(graph, wide)));
  CHECK(got.values<double>()[0] == doctest::Approx(7.38014831e-309).epsilon(1e-8));
  CHECK(got.values<double>()[1] == doctest::Approx(2.03223080e-313).epsilon(1e-8));
  CHECK(got.values<double>()[2] == std::numeric_limits<double>::denorm_min());
  CHECK(got.values<double>()[3] == 0);
  CHECK(got.values<double>()[4] == 1);
  CHECK(got.values<double>()[5] == 1);
}

TEST_CASE("Sigmoid saturates at zero and one") { check(cases()); }

}  // namespace troupe

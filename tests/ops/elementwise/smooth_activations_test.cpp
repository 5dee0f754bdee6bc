// Activations without kinks: Gelu, Silu, Softplus and Mish.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases gelu_cases() {
  return unary_cases("Gelu", i32(zeros({2})),
                     {
                         {.name = "a matrix",
                          .inputs = {matrix({{0, 1}, {-1, 0.25}})},
                          .expected = {matrix({{0, 0.8413447460685429},
                                               {-0.15865525393145705, 0.14967658142073093}})}},
                         {.name = "size one",
                          .inputs = {vector({-2})},
                          .expected = {vector({-0.04550026389635842})}},
                         {.name = "approximate",
                          .inputs = {matrix({{0, 1}, {-1, 0.25}})},
                          .attrs = {{"approximate", true}},
                          .expected = {matrix({{0, 0.8411919906082767},
                                               {-0.1588080093917233, 0.149675350701685}})}},
                         {.name = "the tail",
                          .inputs = {vector({-10})},
                          .expected = {vector({-7.619853024160526e-23})},
                          .tolerance = 1e-35,
                          .as_written = true,
                          .smooth = false},
                         {.name = "the tail of the approximation",
                          .inputs = {vector({-10})},
                          .attrs = {{"approximate", true}},
                          .expected = {vector({-1.2040923482098107e-37})},
                          .tolerance = 1e-45,
                          .as_written = true,
                          .smooth = false},
                         {.name = "far from zero",
                          .inputs = {vector({100, -100})},
                          .expected = {vector({100, 0})}},
                         {.name = "approximate, far from zero",
                          .inputs = {vector({100, -100})},
                          .attrs = {{"approximate", true}},
                          .expected = {vector({100, 0})}},
                         {.name = "infinities and NaN",
                          .inputs = {vector({INFINITY, -INFINITY, NAN})},
                          .expected = {vector({INFINITY, 0, NAN})},
                          .smooth = false},
                         {.name = "approximate, infinities and NaN",
                          .inputs = {vector({INFINITY, -INFINITY, NAN})},
                          .attrs = {{"approximate", true}},
                          .expected = {vector({INFINITY, 0, NAN})},
                          .smooth = false},
                     });
}
const ListedCases listed_gelu(gelu_cases);

OpCases silu_cases() {
  return unary_cases("Silu", i32(zeros({2})),
                     {
                         {.name = "a matrix",
                          .inputs = {matrix({{0, 1}, {-1, 0.25}})},
                          .expected = {matrix({{0, 0.7310585786300049},
                                               {-0.2689414213699951, 0.14054412522144952}})}},
                         {.name = "size one",
                          .inputs = {vector({-2})},
                          .expected = {vector({-0.23840584404423512})}},
                         {.name = "the tail",
                          .inputs = {vector({-700})},
                          .expected = {vector({-6.90177358063184e-302})},
                          .tolerance = 1e-315,
                          .as_written = true,
                          .smooth = false},
                         {.name = "far from zero",
                          .inputs = {vector({100, -100, 1000, -1000})},
                          .expected = {vector({100, -3.720075976020836e-42, 1000, 0})}},
                         {.name = "infinities and NaN",
                          .inputs = {vector({INFINITY, -INFINITY, NAN})},
                          .expected = {vector({INFINITY, 0, NAN})},
                          .smooth = false},
                     });
}
const ListedCases listed_silu(silu_cases);

OpCases softplus_cases() {
  return unary_cases("Softplus", i32(zeros({2})),
                     {
                         {.name = "a matrix",
                          .inputs = {matrix({{0, 1}, {-1, 0.25}})},
                          .expected = {matrix({{0.6931471805599453, 1.3132616875182228},
                                               {0.3132616875182228, 0.8259394198788436}})}},
                         {.name = "size one",
                          .inputs = {vector({-2})},
                          .expected = {vector({0.1269280110429725})}},
                         {.name = "the tail",
                          .inputs = {vector({-700})},
                          .expected = {vector({9.85967654375977e-305})},
                          .tolerance = 1e-318,
                          .as_written = true,
                          .smooth = false},
                         {.name = "far from zero",
                          .inputs = {vector({100, -100, 1000, -1000})},
                          .expected = {vector({100, 3.720075976020836e-44, 1000, 0})}},
                         {.name = "infinities and NaN",
                          .inputs = {vector({INFINITY, -INFINITY, NAN})},
                          .expected = {vector({INFINITY, 0, NAN})},
                          .smooth = false},
                     });
}
const ListedCases listed_softplus(softplus_cases);

OpCases mish_cases() {
  return unary_cases("Mish", i32(zeros({2})),
                     {
                         {.name = "a matrix",
                          .inputs = {matrix({{0, 1}, {-1, 0.25}})},
                          .expected = {matrix({{0, 0.8650983882673103},
                                               {-0.3034014613741089, 0.1695724096638176}})}},
                         {.name = "size one",
                          .inputs = {vector({-2})},
                          .expected = {vector({-0.2525014826957089})}},
                         {.name = "the tail",
                          .inputs = {vector({-700})},
                          .expected = {vector({-6.90177358063184e-302})},
                          .tolerance = 1e-315,
                          .as_written = true,
                          .smooth = false},
                         {.name = "far from zero",
                          .inputs = {vector({100, -100, 1000, -1000})},
                          .expected = {vector({100, -3.720075976020836e-42, 1000, 0})}},
                         {.name = "infinities and NaN",
                          .inputs = {vector({INFINITY, -INFINITY, NAN})},
                          .expected = {vector({INFINITY, 0, NAN})},
                          .smooth = false},
                     });
}
const ListedCases listed_mish(mish_cases);

}  // namespace

TEST_CASE("Gelu weighs x with the chance of less") { check(gelu_cases()); }

TEST_CASE("Silu weighs x with its sigmoid") { check(silu_cases()); }

TEST_CASE("Softplus neither overflows nor loses its tail") { check(softplus_cases()); }

TEST_CASE("Mish weighs x with tanh of its softplus") { check(mish_cases()); }

TEST_CASE("Gelu's approximation is an argument") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, Shape{});
  const FedValues feeds = {{x, scalar(1)}};
  CHECK(evaluate(gelu(x), feeds).item<double>() ==
        doctest::Approx(0.8413447460685429).epsilon(1e-12));
  CHECK(evaluate(gelu(x, true), feeds).item<double>() ==
        doctest::Approx(0.8411919906082767).epsilon(1e-12));
}

}  // namespace troupe

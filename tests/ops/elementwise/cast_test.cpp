// Cast.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return {.values =
              {
                  {.name = "f64 to f32",
                   .op = "Cast",
                   .inputs = {vector({0.1, 1e300})},
                   .attrs = {{"dtype", DType::f32}},
                   .expected = {f32(vector({0.1, 1e300}))},
                   .as_written = true,
                   .smooth = false},
                  {.name = "f64 to f32 and back, with the slope of either",
                   .op = "Cast",
                   .inputs = {vector({0.5, -0.25})},
                   .expected = {vector({0.5, -0.25})},
                   .build =
                       [](Graph&, const std::vector<Output>& x) {
                         return std::vector<Output>{cast(cast(x[0], DType::f32), DType::f64)};
                       },
                   .as_written = true,
                   .gradient_tolerance = 1e-3},  // differences of f32, which has 24 bits
                  {.name = "f32 to f64",
                   .op = "Cast",
                   .inputs = {f32(vector({0.5, NAN}))},
                   .attrs = {{"dtype", DType::f64}},
                   .expected = {vector({0.5, NAN})},
                   .as_written = true,
                   .smooth = false},
                  {.name = "f64 to itself",
                   .op = "Cast",
                   .inputs = {vector({0.1, -2})},
                   .attrs = {{"dtype", DType::f64}},
                   .expected = {vector({0.1, -2})},
                   .as_written = true},
                  {.name = "f32 to i32 is cut towards zero",
                   .op = "Cast",
                   .inputs = {f32(vector({1.9, -1.9, 0.5, -0.5}))},
                   .attrs = {{"dtype", DType::i32}},
                   .expected = {i32(vector({1, -1, 0, 0}))},
                   .as_written = true},
                  {.name = "f32 to i32 out of range",
                   .op = "Cast",
                   .inputs = {f32(vector({NAN, INFINITY, -INFINITY, 3e9, -3e9, 2147483520}))},
                   .attrs = {{"dtype", DType::i32}},
                   .expected = {i32(vector(
                       {0, 2147483647, -2147483648.0, 2147483647, -2147483648.0, 2147483520}))},
                   .as_written = true},
                  {.name = "f64 to i64 out of range",
                   .op = "Cast",
                   .inputs = {vector({NAN, 1e19, -1e19})},
                   .attrs = {{"dtype", DType::i64}},
                   .expected = {Tensor::of<int64_t>({0, INT64_MAX, INT64_MIN}, Shape{3})},
                   .as_written = true},
                  {.name = "f32 to u8 out of range",
                   .op = "Cast",
                   .inputs = {f32(vector({-1, 255.9, 256, 300, -0.9, NAN}))},
                   .attrs = {{"dtype", DType::u8}},
                   .expected = {u8(vector({0, 255, 255, 255, 0, 0}))},
                   .as_written = true},
                  {.name = "f32 to bool",
                   .op = "Cast",
                   .inputs = {f32(vector({0, -0.0, 0.1, NAN}))},
                   .attrs = {{"dtype", DType::boolean}},
                   .expected = {booleans(vector({0, 0, 1, 1}))},
                   .as_written = true},
                  {.name = "i32 to u8 wraps around",
                   .op = "Cast",
                   .inputs = {i32(vector({-1, 256, 77}))},
                   .attrs = {{"dtype", DType::u8}},
                   .expected = {u8(vector({255, 0, 77}))},
                   .as_written = true},
                  {.name = "i64 to i32 wraps around",
                   .op = "Cast",
                   .inputs = {i64(vector({4294967297.0}))},
                   .attrs = {{"dtype", DType::i32}},
                   .expected = {i32(vector({1}))},
                   .as_written = true},
                  {.name = "u8 to f32",
                   .op = "Cast",
                   .inputs = {u8(iota({37}, 200))},
                   .attrs = {{"dtype", DType::f32}},
                   .expected = {f32(iota({37}, 200))},
                   .as_written = true},
                  {.name = "bool to f64",
                   .op = "Cast",
                   .inputs = {booleans(vector({1, 0}))},
                   .attrs = {{"dtype", DType::f64}},
                   .expected = {vector({1, 0})},
                   .as_written = true},
                  {.name = "bool to i32",
                   .op = "Cast",
                   .inputs = {booleans(vector({1, 0}))},
                   .attrs = {{"dtype", DType::i32}},
                   .expected = {i32(vector({1, 0}))},
                   .as_written = true},
                  {.name = "size one",
                   .op = "Cast",
                   .inputs = {i64(vector({7}))},
                   .attrs = {{"dtype", DType::f32}},
                   .expected = {f32(vector({7}))},
                   .as_written = true},
                  {.name = "empty",
                   .op = "Cast",
                   .inputs = {zeros({0, 2})},
                   .attrs = {{"dtype", DType::i32}},
                   .expected = {i32(zeros({0, 2}))},
                   .as_written = true},
              },
          .errors = {
              {.op = "Cast", .inputs = {zeros({2})}, .message = "needs attribute dtype, a dtype"},
              {.op = "Cast",
               .inputs = {zeros({2}), zeros({2})},
               .attrs = {{"dtype", DType::f32}},
               .message = "wants 1 input (x), got 2"},
          }};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Cast converts, and every conversion is defined") { check(cases()); }

TEST_CASE("a gradient passes casts between floats, and ends at integers") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, Shape{2});
  const Output y = cast(multiply(cast(x, DType::f32), cast(x, DType::f32)), DType::f64);
  const Output dx = gradients({y}, {x})[0];
  CHECK(dx.dtype() == DType::f64);
  CHECK(!difference(evaluate(dx, {{x, vector({3, -4})}}), vector({6, -8})));
  CHECK(!gradients({cast(cast(x, DType::i32), DType::f64)}, {x})[0].defined());
}

}  // namespace troupe

// Cast.
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

const Table table("Cast converts, and every conversion is defined", [] {
  return table_of(
      "Cast",
      {
          Case("f64 to f32", {vector({0.1, 1e300})}, {f32(vector({0.1, 1e300}))},
               {{"dtype", DType::f32}})
              .as_typed()
              .rough(),
          Case("f64 to f32 and back, with the slope of either", {vector({0.5, -0.25})},
               {vector({0.5, -0.25})})
              .slopes_within(1e-3)
              .as_typed()
              .made_by([](Graph&, const std::vector<Output>& x) {
                return std::vector<Output>{cast(cast(x[0], DType::f32), DType::f64)};
              }),  // differences of f32, which has 24 bits
          Case("f32 to f64", {f32(vector({0.5, NAN}))}, {vector({0.5, NAN})},
               {{"dtype", DType::f64}})
              .as_typed()
              .rough(),
          Case("f64 to itself", {vector({0.1, -2})}, {vector({0.1, -2})}, {{"dtype", DType::f64}})
              .as_typed(),
          Case("f32 to i32 is cut towards zero", {f32(vector({1.9, -1.9, 0.5, -0.5}))},
               {i32(vector({1, -1, 0, 0}))}, {{"dtype", DType::i32}})
              .as_typed(),
          Case("f32 to i32 out of range",
               {f32(vector({NAN, INFINITY, -INFINITY, 3e9, -3e9, 2147483520}))},
               {i32(vector({0, 2147483647, -2147483648.0, 2147483647, -2147483648.0, 2147483520}))},
               {{"dtype", DType::i32}})
              .as_typed(),
          Case("f64 to i64 out of range", {vector({NAN, 1e19, -1e19})},
               {Tensor::of<int64_t>({0, INT64_MAX, INT64_MIN}, Shape{3})}, {{"dtype", DType::i64}})
              .as_typed(),
          Case("f32 to u8 out of range", {f32(vector({-1, 255.9, 256, 300, -0.9, NAN}))},
               {u8(vector({0, 255, 255, 255, 0, 0}))}, {{"dtype", DType::u8}})
              .as_typed(),
          Case("f32 to bool", {f32(vector({0, -0.0, 0.1, NAN}))}, {booleans(vector({0, 0, 1, 1}))},
               {{"dtype", DType::boolean}})
              .as_typed(),
          Case("i32 to u8 wraps around", {i32(vector({-1, 256, 77}))}, {u8(vector({255, 0, 77}))},
               {{"dtype", DType::u8}})
              .as_typed(),
          Case("i64 to i32 wraps around", {i64(vector({4294967297.0}))}, {i32(vector({1}))},
               {{"dtype", DType::i32}})
              .as_typed(),
          Case("u8 to f32", {u8(iota({37}, 200))}, {f32(iota({37}, 200))}, {{"dtype", DType::f32}})
              .as_typed(),
          Case("bool to f64", {booleans(vector({1, 0}))}, {vector({1, 0})}, {{"dtype", DType::f64}})
              .as_typed(),
          Case("bool to i32", {booleans(vector({1, 0}))}, {i32(vector({1, 0}))},
               {{"dtype", DType::i32}})
              .as_typed(),
          Case("size one", {i64(vector({7}))}, {f32(vector({7}))}, {{"dtype", DType::f32}})
              .as_typed(),
          Case("empty", {zeros({0, 2})}, {i32(zeros({0, 2}))}, {{"dtype", DType::i32}}).as_typed(),
      },
      {
          Refused({zeros({2})}, "needs attribute dtype, a dtype"),
          Refused({zeros({2}), zeros({2})}, "wants 1 input (x), got 2", {{"dtype", DType::f32}}),
      });
});

}  // namespace

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

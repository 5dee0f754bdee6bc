// Fill.
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

const Table table("Fill repeats a number", [] {
  return table_of(
      "Fill",
      {
          Case("f32", {}, {f32(full({2, 3}, 0.5))},
               {{"shape", Shape{2, 3}}, {"value", 0.5}, {"dtype", DType::f32}}),
          Case("f64", {}, {full({2}, 0.1)},
               {{"shape", Shape{2}}, {"value", 0.1}, {"dtype", DType::f64}}),
          Case("i32", {}, {i32(full({2}, -7))},
               {{"shape", Shape{2}}, {"value", -7.0}, {"dtype", DType::i32}}),
          Case("i64 from an integer", {}, {i64(full({2}, 1e15))},
               {{"shape", Shape{2}}, {"value", int64_t{1000000000000000}}, {"dtype", DType::i64}}),
          Case("u8", {}, {u8(full({37}, 255))},
               {{"shape", Shape{37}}, {"value", 255.0}, {"dtype", DType::u8}}),
          Case("bool", {}, {booleans(full({2}, 1))},
               {{"shape", Shape{2}}, {"value", 1.0}, {"dtype", DType::boolean}}),
          Case("a scalar", {}, {scalar(3)},
               {{"shape", Shape{}}, {"value", 3.0}, {"dtype", DType::f64}}),
          Case("NaN", {}, {vector({NAN})},
               {{"shape", Shape{1}}, {"value", NAN}, {"dtype", DType::f64}}),
          Case("empty", {}, {f32(zeros({0}))},
               {{"shape", Shape{0}}, {"value", 1.0}, {"dtype", DType::f32}}),
      },
      {
          Refused({}, "[2305843009213693952] has more than 2^59 elements",
                  {{"shape", Shape{int64_t{1} << 61}}, {"value", 1.0}, {"dtype", DType::f64}}),
          Refused({}, "wants a shape without -1, got [-1]",
                  {{"shape", Shape{-1}}, {"value", 1.0}, {"dtype", DType::f32}}),
          Refused({}, "the value 2.5 is no i32 value",
                  {{"shape", Shape{1}}, {"value", 2.5}, {"dtype", DType::i32}}),
          Refused({}, "the value 256 is no u8 value",
                  {{"shape", Shape{1}}, {"value", 256.0}, {"dtype", DType::u8}}),
          Refused({}, "is no i64 value",
                  {{"shape", Shape{1}}, {"value", NAN}, {"dtype", DType::i64}}),
      });
});

}  // namespace
}  // namespace troupe

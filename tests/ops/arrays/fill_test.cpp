// Fill.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return {.values =
              {
                  {.name = "f32",
                   .op = "Fill",
                   .inputs = {},
                   .attrs = {{"shape", Shape{2, 3}}, {"value", 0.5}, {"dtype", DType::f32}},
                   .expected = {f32(full({2, 3}, 0.5))}},
                  {.name = "f64",
                   .op = "Fill",
                   .inputs = {},
                   .attrs = {{"shape", Shape{2}}, {"value", 0.1}, {"dtype", DType::f64}},
                   .expected = {full({2}, 0.1)}},
                  {.name = "i32",
                   .op = "Fill",
                   .inputs = {},
                   .attrs = {{"shape", Shape{2}}, {"value", -7.0}, {"dtype", DType::i32}},
                   .expected = {i32(full({2}, -7))}},
                  {.name = "i64 from an integer",
                   .op = "Fill",
                   .inputs = {},
                   .attrs = {{"shape", Shape{2}},
                             {"value", int64_t{1000000000000000}},
                             {"dtype", DType::i64}},
                   .expected = {i64(full({2}, 1e15))}},
                  {.name = "u8",
                   .op = "Fill",
                   .inputs = {},
                   .attrs = {{"shape", Shape{37}}, {"value", 255.0}, {"dtype", DType::u8}},
                   .expected = {u8(full({37}, 255))}},
                  {.name = "bool",
                   .op = "Fill",
                   .inputs = {},
                   .attrs = {{"shape", Shape{2}}, {"value", 1.0}, {"dtype", DType::boolean}},
                   .expected = {booleans(full({2}, 1))}},
                  {.name = "a scalar",
                   .op = "Fill",
                   .inputs = {},
                   .attrs = {{"shape", Shape{}}, {"value", 3.0}, {"dtype", DType::f64}},
                   .expected = {scalar(3)}},
                  {.name = "NaN",
                   .op = "Fill",
                   .inputs = {},
                   .attrs = {{"shape", Shape{1}}, {"value", NAN}, {"dtype", DType::f64}},
                   .expected = {vector({NAN})}},
                  {.name = "empty",
                   .op = "Fill",
                   .inputs = {},
                   .attrs = {{"shape", Shape{0}}, {"value", 1.0}, {"dtype", DType::f32}},
                   .expected = {f32(zeros({0}))}},
              },
          .errors = {
              {.op = "Fill",
               .attrs = {{"shape", Shape{int64_t{1} << 61}}, {"value", 1.0}, {"dtype", DType::f64}},
               .message = "[2305843009213693952] has more than 2^59 elements"},
              {.op = "Fill",
               .inputs = {},
               .attrs = {{"shape", Shape{-1}}, {"value", 1.0}, {"dtype", DType::f32}},
               .message = "wants a shape without -1, got [-1]"},
              {.op = "Fill",
               .inputs = {},
               .attrs = {{"shape", Shape{1}}, {"value", 2.5}, {"dtype", DType::i32}},
               .message = "the value 2.5 is no i32 value"},
              {.op = "Fill",
               .inputs = {},
               .attrs = {{"shape", Shape{1}}, {"value", 256.0}, {"dtype", DType::u8}},
               .message = "the value 256 is no u8 value"},
              {.op = "Fill",
               .inputs = {},
               .attrs = {{"shape", Shape{1}}, {"value", NAN}, {"dtype", DType::i64}},
               .message = "is no i64 value"},
          }};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Fill repeats a number") { check(cases()); }

}  // namespace troupe

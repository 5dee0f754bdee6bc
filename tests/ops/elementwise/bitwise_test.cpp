// BitwiseAnd, BitwiseOr, BitwiseXor, LeftShift and RightShift.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

// Numbers that fit into u8, and negative ones.
const Tensor a = i32(vector({12, 255, 0, 170})), b = i32(vector({10, 15, 7, 85}));
const Tensor signed_a = i32(vector({-1, -8, 2147483647, -2147483648.0}));
const Tensor signed_b = i32(vector({5, 12, -2, -2147483648.0}));

struct Expected {
  std::string op;
  Tensor c, of_signed, with_six, of_bits;
};

OpCases bitwise(const Expected& e) {
  return binary_cases(
      e.op, zeros({2}),
      {
          {.name = "small numbers", .inputs = {a, b}, .expected = {i32(e.c)}},
          {.name = "negative numbers",
           .inputs = {signed_a, signed_b},
           .expected = {i32(e.of_signed)}},
          {.name = "rows with a scalar",
           .inputs = {i32(matrix({{1, 2}, {3, 4}})), i32(scalar(6))},
           .expected = {i32(e.with_six)}},
          {.name = "bool is one bit",
           .inputs = {booleans(vector({0, 0, 1, 1})), booleans(vector({0, 1, 0, 1}))},
           .expected = {booleans(e.of_bits)},
           .as_written = true},
          {.name = "size one",
           .inputs = {i32(vector({7})), i32(vector({0}))},
           .expected = {i32(vector({e.op == "BitwiseAnd" ? 0.0 : 7.0}))}},
      });
}

OpCases and_cases() {
  return bitwise({.op = "BitwiseAnd",
                  .c = vector({8, 15, 0, 0}),
                  .of_signed = vector({5, 8, 2147483646, -2147483648.0}),
                  .with_six = matrix({{0, 2}, {2, 4}}),
                  .of_bits = vector({0, 0, 0, 1})});
}
const ListedCases listed_and(and_cases);

OpCases or_cases() {
  return bitwise({.op = "BitwiseOr",
                  .c = vector({14, 255, 7, 255}),
                  .of_signed = vector({-1, -4, -1, -2147483648.0}),
                  .with_six = matrix({{7, 6}, {7, 6}}),
                  .of_bits = vector({0, 1, 1, 1})});
}
const ListedCases listed_or(or_cases);

OpCases xor_cases() {
  return bitwise({.op = "BitwiseXor",
                  .c = vector({6, 240, 7, 255}),
                  .of_signed = vector({-6, -12, -2147483647, 0}),
                  .with_six = matrix({{7, 4}, {5, 2}}),
                  .of_bits = vector({0, 1, 1, 0})});
}
const ListedCases listed_xor(xor_cases);

OpCases left_shift_cases() {
  OpCases all =
      binary_cases("LeftShift", zeros({2}),
                   {
                       {.name = "small numbers",
                        .inputs = {i32(vector({1, 3, 5, 0})), i32(vector({0, 2, 4, 7}))},
                        .expected = {i32(vector({1, 12, 80, 0}))}},
                       {.name = "negative numbers",
                        .inputs = {i32(vector({-1, -3})), i32(vector({4, 1}))},
                        .expected = {i32(vector({-16, -6}))}},
                       {.name = "a scalar by a row",
                        .inputs = {i32(scalar(1)), i32(vector({0, 1, 2, 3}))},
                        .expected = {i32(vector({1, 2, 4, 8}))}},
                       {.name = "i32 loses bits at the top",
                        .inputs = {i32(vector({1, 3, 2147483647, -1, 5, 5})),
                                   i32(vector({31, 31, 1, 32, 33, 2147483647}))},
                        .expected = {i32(vector({-2147483648.0, -2147483648.0, -2, 0, 0, 0}))},
                        .as_written = true},
                       {.name = "so does u8",
                        .inputs = {u8(vector({255, 3, 1})), u8(vector({4, 7, 8}))},
                        .expected = {u8(vector({240, 128, 0}))},
                        .as_written = true},
                       {.name = "i64 has 64 bits",
                        .inputs = {i64(vector({1, 1, -1})), i64(vector({40, 64, 63}))},
                        .expected = {Tensor::of<int64_t>({int64_t{1} << 40, 0, INT64_MIN}, {3})},
                        .as_written = true},
                       {.name = "size one",
                        .inputs = {i32(vector({3})), i32(vector({1}))},
                        .expected = {i32(vector({6}))}},
                   });
  all.errors.push_back({.op = "LeftShift",
                        .inputs = {i32(vector({1, 2})), i32(vector({1, -1}))},
                        .message = "shifts by a negative number of bits: element 1 of b is -1",
                        .when_run = true});
  return all;
}
const ListedCases listed_left_shift(left_shift_cases);

OpCases right_shift_cases() {
  OpCases all =
      binary_cases("RightShift", zeros({2}),
                   {
                       {.name = "small numbers",
                        .inputs = {i32(vector({1, 12, 255, 7})), i32(vector({0, 2, 4, 3}))},
                        .expected = {i32(vector({1, 3, 15, 0}))}},
                       {.name = "negative numbers are rounded down",
                        .inputs = {i32(vector({-1, -7, -8})), i32(vector({4, 1, 2}))},
                        .expected = {i32(vector({-1, -4, -2}))}},
                       {.name = "a scalar by a row",
                        .inputs = {i32(scalar(100)), i32(vector({0, 1, 2, 3}))},
                        .expected = {i32(vector({100, 50, 25, 12}))}},
                       {.name = "i32 keeps the sign",
                        .inputs = {i32(vector({-2147483648.0, 2147483647, -5, 5, -5})),
                                   i32(vector({31, 31, 32, 32, 2147483647}))},
                        .expected = {i32(vector({-1, 0, -1, 0, -1}))},
                        .as_written = true},
                       {.name = "u8 has none",
                        .inputs = {u8(vector({255, 128, 255})), u8(vector({4, 7, 8}))},
                        .expected = {u8(vector({15, 1, 0}))},
                        .as_written = true},
                       {.name = "size one",
                        .inputs = {i32(vector({6})), i32(vector({1}))},
                        .expected = {i32(vector({3}))}},
                   });
  all.errors.push_back({.op = "RightShift",
                        .inputs = {i64(vector({1, 2})), i64(vector({-3, 1}))},
                        .message = "shifts by a negative number of bits: element 0 of b is -3",
                        .when_run = true});
  return all;
}
const ListedCases listed_right_shift(right_shift_cases);

}  // namespace

TEST_CASE("BitwiseAnd keeps the bits of both") { check(and_cases()); }
TEST_CASE("BitwiseOr keeps the bits of either") { check(or_cases()); }
TEST_CASE("BitwiseXor keeps the bits that differ") { check(xor_cases()); }
TEST_CASE("LeftShift multiplies by powers of two") { check(left_shift_cases()); }
TEST_CASE("RightShift divides by powers of two, rounding down") { check(right_shift_cases()); }

}  // namespace troupe

// LogicalNot and Invert.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases logical_not_cases() {
  return {.values =
              {
                  {.name = "a matrix",
                   .op = "LogicalNot",
                   .inputs = {booleans(matrix({{1, 0}, {0, 1}}))},
                   .expected = {booleans(matrix({{0, 1}, {1, 0}}))}},
                  {.name = "size one",
                   .op = "LogicalNot",
                   .inputs = {booleans(scalar(0))},
                   .expected = {booleans(scalar(1))}},
                  {.name = "a long one",
                   .op = "LogicalNot",
                   .inputs = {booleans(full({100}, 1))},
                   .expected = {booleans(zeros({100}))}},
                  {.name = "empty",
                   .op = "LogicalNot",
                   .inputs = {booleans(zeros({3, 0}))},
                   .expected = {booleans(zeros({3, 0}))}},
              },
          .errors = {
              {.op = "LogicalNot",
               .inputs = {i32(zeros({2}))},
               .message = "has no kernel for i32; cast to one of bool"},
              {.op = "LogicalNot",
               .inputs = {booleans(zeros({2})), booleans(zeros({2}))},
               .message = "wants 1 input (x), got 2"},
          }};
}
const ListedCases listed_logical_not(logical_not_cases);

OpCases invert_cases() {
  return {.values =
              {
                  {.name = "signed numbers",
                   .op = "Invert",
                   .inputs = {i32(matrix({{0, 1}, {-1, 100}}))},
                   .expected = {i32(matrix({{-1, -2}, {0, -101}}))}},
                  {.name = "u8",
                   .op = "Invert",
                   .inputs = {u8(vector({0, 1, 255, 170}))},
                   .expected = {u8(vector({255, 254, 0, 85}))},
                   .as_written = true},
                  {.name = "the ends of i64",
                   .op = "Invert",
                   .inputs = {Tensor::of<int64_t>({INT64_MIN, INT64_MAX}, Shape{2})},
                   .expected = {Tensor::of<int64_t>({INT64_MAX, INT64_MIN}, Shape{2})},
                   .as_written = true},
                  {.name = "size one",
                   .op = "Invert",
                   .inputs = {i32(scalar(5))},
                   .expected = {i32(scalar(-6))}},
                  {.name = "empty",
                   .op = "Invert",
                   .inputs = {i32(zeros({3, 0}))},
                   .expected = {i32(zeros({3, 0}))}},
              },
          .errors = {
              {.op = "Invert",
               .inputs = {zeros({2})},
               .message = "has no kernel for f64; cast to one of i32, i64, u8"},
              {.op = "Invert",
               .inputs = {booleans(zeros({2}))},
               .message = "has no kernel for bool; cast to one of i32, i64, u8"},
              {.op = "Invert",
               .inputs = {i32(zeros({2})), i32(zeros({2}))},
               .message = "wants 1 input (x), got 2"},
          }};
}
const ListedCases listed_invert(invert_cases);

}  // namespace

TEST_CASE("LogicalNot turns bool over") { check(logical_not_cases()); }

TEST_CASE("Invert turns all bits over") { check(invert_cases()); }

TEST_CASE("bitwise_not adds an Invert node") {
  Graph graph;
  const Output x = placeholder(graph, DType::i32, Shape{});
  CHECK(evaluate(bitwise_not(x), {{x, i32(scalar(7))}}).item<int32_t>() == -8);
}

}  // namespace troupe

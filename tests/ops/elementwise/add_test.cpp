// Add, and with it the broadcasting that all element-wise ops share.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return {.values =
              {
                  {.name = "same shape",
                   .op = "Add",
                   .inputs = {vector({1, 2, 3}), vector({4, 5, 6})},
                   .expected = {vector({5, 7, 9})}},
                  {.name = "size one",
                   .op = "Add",
                   .inputs = {vector({1.5}), vector({2})},
                   .expected = {vector({3.5})}},
                  {.name = "scalars",
                   .op = "Add",
                   .inputs = {scalar(1), scalar(2)},
                   .expected = {scalar(3)}},
                  {.name = "more than a vector register, and a rest",
                   .op = "Add",
                   .inputs = {iota({37}), iota({37}, 1)},
                   .expected = {iota({37}, 1, 2)}},
                  {.name = "a tensor and a scalar",
                   .op = "Add",
                   .inputs = {matrix({{1, 2}, {3, 4}}), scalar(10)},
                   .expected = {matrix({{11, 12}, {13, 14}})}},
                  {.name = "a scalar and a tensor",
                   .op = "Add",
                   .inputs = {scalar(10), matrix({{1, 2}, {3, 4}})},
                   .expected = {matrix({{11, 12}, {13, 14}})}},
                  {.name = "size one of more dimensions than the other",
                   .op = "Add",
                   .inputs = {vector({1, 2}), matrix({{10}})},
                   .expected = {matrix({{11, 12}})}},
                  {.name = "a row for every row",
                   .op = "Add",
                   .inputs = {matrix({{1, 2, 3}, {4, 5, 6}}), vector({10, 20, 30})},
                   .expected = {matrix({{11, 22, 33}, {14, 25, 36}})}},
                  {.name = "a column for every column",
                   .op = "Add",
                   .inputs = {matrix({{10}, {20}}), matrix({{1, 2, 3}, {4, 5, 6}})},
                   .expected = {matrix({{11, 12, 13}, {24, 25, 26}})}},
                  {.name = "both sides repeated",
                   .op = "Add",
                   .inputs = {matrix({{10}, {20}}), vector({1, 2, 3})},
                   .expected = {matrix({{11, 12, 13}, {21, 22, 23}})}},
                  {.name = "repeated outside, inside and between",
                   .op = "Add",
                   .inputs = {iota({1, 2, 1, 2}), iota({2, 1, 3, 1}, 0, 10)},
                   .expected = {values({2, 2, 3, 2},
                                       {0,  1,  10, 11, 20, 21, 2,  3,  12, 13, 22, 23,
                                        30, 31, 40, 41, 50, 51, 32, 33, 42, 43, 52, 53})}},
                  {.name = "five dimensions",
                   .op = "Add",
                   .inputs = {full({2, 1, 2, 1, 2}, 1), full({3, 1, 2, 1}, 2)},
                   .expected = {full({2, 3, 2, 2, 2}, 3)}},
                  {.name = "empty",
                   .op = "Add",
                   .inputs = {zeros({0}), zeros({0})},
                   .expected = {zeros({0})}},
                  {.name = "an empty dimension repeats size one",
                   .op = "Add",
                   .inputs = {zeros({2, 0}), vector({1})},
                   .expected = {zeros({2, 0})}},
                  {.name = "infinities meet",
                   .op = "Add",
                   .inputs = {vector({INFINITY, INFINITY}), vector({-INFINITY, 1})},
                   .expected = {vector({NAN, INFINITY})},
                   .smooth = false},
                  {.name = "i32 wraps around",
                   .op = "Add",
                   .inputs = {i32(vector({2147483647, -2147483648.0})), i32(vector({1, -1}))},
                   .expected = {i32(vector({-2147483648.0, 2147483647}))},
                   .as_written = true},
                  {.name = "u8 wraps around",
                   .op = "Add",
                   .inputs = {u8(vector({255, 200})), u8(vector({1, 100}))},
                   .expected = {u8(vector({0, 44}))},
                   .as_written = true},
                  {.name = "x + x",
                   .op = "Add",
                   .inputs = {vector({1, 2})},
                   .expected = {vector({2, 4})},
                   .build =
                       [](Graph&, const std::vector<Output>& in) {
                         return std::vector{add(in[0], in[0])};
                       }},
              },
          .errors = {
              {.op = "Add",
               .inputs = {zeros({2, 3}), zeros({4})},
               .message = "shapes do not broadcast: [2, 3] and [4]"},
              {.op = "Add",
               .inputs = {zeros({0}), zeros({2})},
               .message = "shapes do not broadcast: [0] and [2]"},
              {.op = "Add",
               .inputs = {zeros({2}), zeros({2}, DType::f32)},
               .message = "inputs must have one dtype, got f64 and f32"},
              {.op = "Add",
               .inputs = {booleans(zeros({2})), booleans(zeros({2}))},
               .message = "has no kernel for bool; cast to one of f32, f64, i32, i64, u8"},
          }};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Add adds and broadcasts") { check(cases()); }

TEST_CASE("sizes known only in part are checked when the step runs") {
  // The result is known to be [4] before x is: only the kernel can refuse an x of three elements.
  Graph graph;
  const Output x = placeholder(graph, DType::f32, Shape{-1});
  const Output y = placeholder(graph, DType::f32, Shape{4});
  const Output sum = add(x, y);
  CHECK(sum.shape() == Shape{4});
  const Tensor four = f32(vector({1, 2, 3, 4}));
  CHECK(same_bits(evaluate(sum, {{x, f32(vector({1}))}, {y, four}}), f32(vector({2, 3, 4, 5}))));
  CHECK_THROWS_WITH_AS(evaluate(sum, {{x, f32(vector({1, 2, 3}))}, {y, four}}),
                       doctest::Contains("shapes do not broadcast: [3] and [4]"), Error);
}

}  // namespace troupe

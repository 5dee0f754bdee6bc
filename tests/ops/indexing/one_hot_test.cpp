// OneHot.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs attrs(int64_t depth, DType dtype = DType::f32) {
  return {{"depth", depth}, {"dtype", dtype}};
}

OpCases cases() {
  const Tensor rows = matrix({{0, 0, 1}, {1, 0, 0}});
  OpCases all = {.values = {{.name = "a scalar",
                             .op = "OneHot",
                             .inputs = {i32(scalar(1))},
                             .attrs = attrs(2),
                             .expected = {f32(vector({0, 1}))}},
                            {.name = "a matrix",
                             .op = "OneHot",
                             .inputs = {i64(matrix({{0, 1}}))},
                             .attrs = attrs(2),
                             .expected = {f32(values({1, 2, 2}, {1, 0, 0, 1}))}},
                            {.name = "no indices",
                             .op = "OneHot",
                             .inputs = {zeros({0}, DType::i32)},
                             .attrs = attrs(3),
                             .expected = {zeros({0, 3}, DType::f32)}},
                            {.name = "depth one",
                             .op = "OneHot",
                             .inputs = {i32(vector({0}))},
                             .attrs = attrs(1),
                             .expected = {f32(matrix({{1}}))}}},
                 .errors = {{.op = "OneHot",
                             .inputs = {vector({1})},
                             .attrs = attrs(2),
                             .message = "wants indices of i32 or i64, got f64; cast them"},
                            {.op = "OneHot",
                             .inputs = {i32(vector({1}))},
                             .attrs = attrs(-1),
                             .message = "wants a depth of at least 0, got -1"},
                            {.op = "OneHot",
                             .inputs = {zeros({1, 1, 1, 1, 1, 1, 1, 1}, DType::i32)},
                             .attrs = attrs(2),
                             .message = "would have more than 8 dimensions"}}};
  for (DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64, DType::u8, DType::boolean})
    all.values.push_back({.name = to_string(dtype),
                          .op = "OneHot",
                          .inputs = {i32(vector({2, 0}))},
                          .attrs = attrs(3, dtype),
                          .expected = {converted(rows, dtype)},
                          .as_written = true});
  return all;
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("OneHot sets one of each row") { check(cases()); }

}  // namespace troupe

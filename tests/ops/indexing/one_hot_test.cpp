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
  OpCases all = table_of(
      "OneHot",
      {Case("a scalar", {i32(scalar(1))}, {f32(vector({0, 1}))}, attrs(2)),
       Case("a matrix", {i64(matrix({{0, 1}}))}, {f32(values({1, 2, 2}, {1, 0, 0, 1}))}, attrs(2)),
       Case("no indices", {zeros({0}, DType::i32)}, {zeros({0, 3}, DType::f32)}, attrs(3)),
       Case("depth one", {i32(vector({0}))}, {f32(matrix({{1}}))}, attrs(1))},
      {Refused({vector({1})}, "wants indices of i32 or i64, got f64; cast them", attrs(2)),
       Refused({i32(vector({1}))}, "wants a depth of at least 0, got -1", attrs(-1)),
       Refused({zeros({1, 1, 1, 1, 1, 1, 1, 1}, DType::i32)}, "would have more than 8 dimensions",
               attrs(2))});
  for (DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64, DType::u8, DType::boolean})
    all.values.push_back(Case("OneHot", to_string(dtype), {i32(vector({2, 0}))},
                              {converted(rows, dtype)}, attrs(3, dtype))
                             .as_typed());
  return all;
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("OneHot sets one of each row") { check(cases()); }

}  // namespace troupe

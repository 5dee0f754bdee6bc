// SearchSorted and InTopK.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs right() { return {{"right", true}}; }
Attrs k(int64_t k) { return {{"k", k}}; }

OpCases search_cases() {
  const Tensor sorted = vector({1, 3, 3, 5});
  const Tensor values_ = vector({0, 1, 2, 3, 5, 6});
  return table_of(
      "SearchSorted",
      {Case("before equals", {sorted, values_}, {i64(vector({0, 0, 1, 1, 3, 4}))}),
       Case("after equals", {sorted, values_}, {i64(vector({0, 1, 1, 3, 4, 4}))}, right()),
       Case("a matrix in one line", {sorted, matrix({{4, 3}, {9, 1}})},
            {i64(matrix({{3, 1}, {4, 0}}))}),
       Case("a scalar", {sorted, scalar(4)}, {i64(scalar(3))}),
       Case("each in its own line", {matrix({{1, 2, 3}, {10, 20, 30}}), matrix({{2, 9}, {2, 20}})},
            {i64(matrix({{2, 3}, {0, 2}}))}, right()),
       Case("in an empty line", {zeros({0}), vector({1, 2})}, {i64(vector({0, 0}))}),
       Case("nothing", {matrix({{1}, {2}}), zeros({2, 0})}, {zeros({2, 0}, DType::i64)}),
       Case("NaN and infinities",
            {vector({-INFINITY, 0, INFINITY, NAN}), vector({NAN, INFINITY, -INFINITY, 1})},
            {i64(vector({3, 2, 0, 2}))}),
       Case("after NaN", {vector({0, NAN}), vector({NAN})}, {i64(vector({2}))}, right())},
      {Refused({zeros({2, 3}), zeros({3, 3})},
               "wants sorted [n], or sorted [..., n] and values [..., m], got "
               "[2, 3] and [3, 3]"),
       Refused({scalar(1), zeros({3})}, "wants sorted [n], or sorted [..., n] and values [..., m]"),
       Refused({zeros({2, 3}), zeros({3})},
               "wants sorted [n], or sorted [..., n] and values [..., m]"),
       Refused({zeros({2}), f32(zeros({2}))},
               "compares values of one dtype, got f64 and f32; cast one"),
       Refused({booleans(zeros({2})), booleans(zeros({2}))}, "has no kernel for bool")});
}
const ListedCases listed_search(search_cases);

OpCases in_top_k_cases() {
  const Tensor logits = matrix({{0.1, 0.5, 0.2}, {3, 3, 1}, {-1, -2, -3}});
  const Tensor labels = i32(vector({2, 1, 2}));
  return table_of(
      "InTopK",
      {Case("the first one", {logits, labels}, {booleans(vector({0, 1, 0}))}, k(1)),
       Case("the first two", {logits, i64(labels)}, {booleans(vector({1, 1, 0}))}, k(2)),
       Case("more than there are classes", {logits, labels}, {booleans(vector({1, 1, 1}))}, k(9)),
       Case("NaN is greater; no label has it",
            {matrix({{NAN, 1, 2}, {NAN, 1, 2}, {INFINITY, 1, -INFINITY}}), i32(vector({2, 0, 2}))},
            {booleans(vector({1, 0, 0}))}, k(2)),
       Case("several leading dimensions",
            {values({2, 2, 2}, {1, 2, 4, 3, 5, 6, 8, 7}), i32(matrix({{1, 1}, {0, 0}}))},
            {booleans(matrix({{1, 0}, {0, 1}}))}, k(1)),
       Case("one class", {matrix({{5}}), i32(vector({0}))}, {booleans(vector({1}))}, k(1)),
       Case("empty", {zeros({0, 3}), zeros({0}, DType::i32)}, {zeros({0}, DType::boolean)}, k(1))},
      {Refused({zeros({3}), labels},
               "wants logits [..., classes] and a label for each row, [...], got [", k(1)),
       Refused({zeros({2, 3}), labels}, "a label for each row, [...], got [2, 3] and [3]", k(1)),
       Refused({logits, labels}, "wants a k of at least 1, got 0", k(0)),
       Refused({logits, logits}, "wants labels of i32 or i64, got f64", k(1)),
       Refused({logits, i32(vector({0, 3, 0}))}, "row 1 has the label 3, but there are 3 classes",
               k(1))
           .in_step()});
}
const ListedCases listed_in_top_k(in_top_k_cases);

}  // namespace

TEST_CASE("SearchSorted finds where values belong") { check(search_cases()); }

TEST_CASE("InTopK says whether a label is among the best") { check(in_top_k_cases()); }

}  // namespace troupe

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
  return {.values = {{.name = "before equals",
                      .op = "SearchSorted",
                      .inputs = {sorted, values_},
                      .expected = {i64(vector({0, 0, 1, 1, 3, 4}))}},
                     {.name = "after equals",
                      .op = "SearchSorted",
                      .inputs = {sorted, values_},
                      .attrs = right(),
                      .expected = {i64(vector({0, 1, 1, 3, 4, 4}))}},
                     {.name = "a matrix in one line",
                      .op = "SearchSorted",
                      .inputs = {sorted, matrix({{4, 3}, {9, 1}})},
                      .expected = {i64(matrix({{3, 1}, {4, 0}}))}},
                     {.name = "a scalar",
                      .op = "SearchSorted",
                      .inputs = {sorted, scalar(4)},
                      .expected = {i64(scalar(3))}},
                     {.name = "each in its own line",
                      .op = "SearchSorted",
                      .inputs = {matrix({{1, 2, 3}, {10, 20, 30}}), matrix({{2, 9}, {2, 20}})},
                      .attrs = right(),
                      .expected = {i64(matrix({{2, 3}, {0, 2}}))}},
                     {.name = "in an empty line",
                      .op = "SearchSorted",
                      .inputs = {zeros({0}), vector({1, 2})},
                      .expected = {i64(vector({0, 0}))}},
                     {.name = "nothing",
                      .op = "SearchSorted",
                      .inputs = {matrix({{1}, {2}}), zeros({2, 0})},
                      .expected = {zeros({2, 0}, DType::i64)}},
                     {.name = "NaN and infinities",
                      .op = "SearchSorted",
                      .inputs = {vector({-INFINITY, 0, INFINITY, NAN}),
                                 vector({NAN, INFINITY, -INFINITY, 1})},
                      .expected = {i64(vector({3, 2, 0, 2}))}},
                     {.name = "after NaN",
                      .op = "SearchSorted",
                      .inputs = {vector({0, NAN}), vector({NAN})},
                      .attrs = right(),
                      .expected = {i64(vector({2}))}}},
          .errors = {{.op = "SearchSorted",
                      .inputs = {zeros({2, 3}), zeros({3, 3})},
                      .message = "wants sorted [n], or sorted [..., n] and values [..., m], got "
                                 "[2, 3] and [3, 3]"},
                     {.op = "SearchSorted",
                      .inputs = {scalar(1), zeros({3})},
                      .message = "wants sorted [n], or sorted [..., n] and values [..., m]"},
                     {.op = "SearchSorted",
                      .inputs = {zeros({2, 3}), zeros({3})},
                      .message = "wants sorted [n], or sorted [..., n] and values [..., m]"},
                     {.op = "SearchSorted",
                      .inputs = {zeros({2}), f32(zeros({2}))},
                      .message = "compares values of one dtype, got f64 and f32; cast one"},
                     {.op = "SearchSorted",
                      .inputs = {booleans(zeros({2})), booleans(zeros({2}))},
                      .message = "has no kernel for bool"}}};
}
const ListedCases listed_search(search_cases);

OpCases in_top_k_cases() {
  const Tensor logits = matrix({{0.1, 0.5, 0.2}, {3, 3, 1}, {-1, -2, -3}});
  const Tensor labels = i32(vector({2, 1, 2}));
  return {
      .values = {{.name = "the first one",
                  .op = "InTopK",
                  .inputs = {logits, labels},
                  .attrs = k(1),
                  .expected = {booleans(vector({0, 1, 0}))}},
                 {.name = "the first two",
                  .op = "InTopK",
                  .inputs = {logits, i64(labels)},
                  .attrs = k(2),
                  .expected = {booleans(vector({1, 1, 0}))}},
                 {.name = "more than there are classes",
                  .op = "InTopK",
                  .inputs = {logits, labels},
                  .attrs = k(9),
                  .expected = {booleans(vector({1, 1, 1}))}},
                 {.name = "NaN is greater; no label has it",
                  .op = "InTopK",
                  .inputs = {matrix({{NAN, 1, 2}, {NAN, 1, 2}, {INFINITY, 1, -INFINITY}}),
                             i32(vector({2, 0, 2}))},
                  .attrs = k(2),
                  .expected = {booleans(vector({1, 0, 0}))}},
                 {.name = "several leading dimensions",
                  .op = "InTopK",
                  .inputs = {values({2, 2, 2}, {1, 2, 4, 3, 5, 6, 8, 7}),
                             i32(matrix({{1, 1}, {0, 0}}))},
                  .attrs = k(1),
                  .expected = {booleans(matrix({{1, 0}, {0, 1}}))}},
                 {.name = "one class",
                  .op = "InTopK",
                  .inputs = {matrix({{5}}), i32(vector({0}))},
                  .attrs = k(1),
                  .expected = {booleans(vector({1}))}},
                 {.name = "empty",
                  .op = "InTopK",
                  .inputs = {zeros({0, 3}), zeros({0}, DType::i32)},
                  .attrs = k(1),
                  .expected = {zeros({0}, DType::boolean)}}},
      .errors = {{.op = "InTopK",
                  .inputs = {zeros({3}), labels},
                  .attrs = k(1),
                  .message = "wants logits [..., classes] and a label for each row, [...], got ["},
                 {.op = "InTopK",
                  .inputs = {zeros({2, 3}), labels},
                  .attrs = k(1),
                  .message = "a label for each row, [...], got [2, 3] and [3]"},
                 {.op = "InTopK",
                  .inputs = {logits, labels},
                  .attrs = k(0),
                  .message = "wants a k of at least 1, got 0"},
                 {.op = "InTopK",
                  .inputs = {logits, logits},
                  .attrs = k(1),
                  .message = "wants labels of i32 or i64, got f64"},
                 {.op = "InTopK",
                  .inputs = {logits, i32(vector({0, 3, 0}))},
                  .attrs = k(1),
                  .message = "row 1 has the label 3, but there are 3 classes",
                  .when_run = true}}};
}
const ListedCases listed_in_top_k(in_top_k_cases);

}  // namespace

TEST_CASE("SearchSorted finds where values belong") { check(search_cases()); }

TEST_CASE("InTopK says whether a label is among the best") { check(in_top_k_cases()); }

}  // namespace troupe

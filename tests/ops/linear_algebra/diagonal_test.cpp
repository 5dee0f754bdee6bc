// Diagonal, its gradient, and trace.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs attrs(int64_t offset, int64_t axis1 = -2, int64_t axis2 = -1) {
  return {{"offset", offset}, {"axis1", axis1}, {"axis2", axis2}};
}

BuildCase trace_of(int64_t offset) {
  return [=](Graph&, const std::vector<Output>& in) { return std::vector{trace(in[0], offset)}; };
}

OpCases cases() {
  const Tensor x = iota({3, 4}), stack = iota({2, 3, 2}, 1);
  return {.values = {{.name = "a matrix",
                      .op = "Diagonal",
                      .inputs = {x},
                      .expected = {vector({0, 5, 10})}},
                     {.name = "above",
                      .op = "Diagonal",
                      .inputs = {x},
                      .attrs = attrs(2),
                      .expected = {vector({2, 7})}},
                     {.name = "below",
                      .op = "Diagonal",
                      .inputs = {x},
                      .attrs = attrs(-1),
                      .expected = {vector({4, 9})}},
                     {.name = "beyond the matrix",
                      .op = "Diagonal",
                      .inputs = {x},
                      .attrs = attrs(4),
                      .expected = {zeros({0})}},
                     {.name = "far beyond the matrix",
                      .op = "Diagonal",
                      .inputs = {x},
                      .attrs = attrs(INT64_MIN),
                      .expected = {zeros({0})}},
                     {.name = "other axes",
                      .op = "Diagonal",
                      .inputs = {stack},
                      .attrs = attrs(0, 0, 2),
                      .expected = {matrix({{1, 8}, {3, 10}, {5, 12}})}},
                     {.name = "axes in the other order",
                      .op = "Diagonal",
                      .inputs = {stack},
                      .attrs = attrs(1, -2, 0),
                      .expected = {matrix({{7}, {8}})}},
                     {.name = "of bool",
                      .op = "Diagonal",
                      .inputs = {booleans(matrix({{1, 0}, {0, 1}}))},
                      .expected = {booleans(vector({1, 1}))},
                      .as_written = true},
                     {.name = "size one",
                      .op = "Diagonal",
                      .inputs = {matrix({{5}})},
                      .expected = {vector({5})}},
                     {.name = "empty",
                      .op = "Diagonal",
                      .inputs = {zeros({2, 0, 3})},
                      .expected = {zeros({2, 0})}},
                     {.name = "no matrices",
                      .op = "Diagonal",
                      .inputs = {zeros({0, 2, 3})},
                      .expected = {zeros({0, 2})}},
                     {.name = "back into a matrix",
                      .op = "DiagonalGradient",
                      .inputs = {vector({1, 2}), zeros({2, 3})},
                      .attrs = attrs(1),
                      .expected = {matrix({{0, 1, 0}, {0, 0, 2}})}},
                     {.name = "back along other axes",
                      .op = "DiagonalGradient",
                      .inputs = {matrix({{1, 2}}), zeros({2, 1, 2})},
                      .attrs = attrs(0, 0, 2),
                      .expected = {values({2, 1, 2}, {1, 0, 0, 2})}},
                     {.name = "nothing into a matrix",
                      .op = "DiagonalGradient",
                      .inputs = {zeros({0}), zeros({2, 2})},
                      .attrs = attrs(5),
                      .expected = {zeros({2, 2})}},
                     {.name = "trace",
                      .op = "ReduceSum",
                      .inputs = {x},
                      .expected = {scalar(15)},
                      .build = trace_of(0)},
                     {.name = "traces of a batch, beside the diagonal",
                      .op = "ReduceSum",
                      .inputs = {stack},
                      .expected = {vector({9, 21})},
                      .build = trace_of(-1)},
                     {.name = "what is not on the diagonal is not looked at",
                      .op = "ReduceSum",
                      .inputs = {matrix({{1, NAN}, {INFINITY, 2}})},
                      .expected = {scalar(3)},
                      .build = trace_of(0),
                      .smooth = false},
                     {.name = "trace of nothing",
                      .op = "ReduceSum",
                      .inputs = {zeros({2, 0, 0})},
                      .expected = {zeros({2})},
                      .build = trace_of(0)}},
          .errors = {{.op = "Diagonal",
                      .inputs = {vector({1, 2})},
                      .message = "wants at least two dimensions to walk along, got ["},
                     {.op = "Diagonal",
                      .inputs = {x},
                      .attrs = attrs(0, 0, 2),
                      .message = "axis 2 is not there: with 2 dimensions"},
                     {.op = "Diagonal",
                      .inputs = {x},
                      .attrs = attrs(0, 1, -1),
                      .message = "walks along two axes, got 1 twice"},
                     {.op = "DiagonalGradient",
                      .inputs = {vector({1, 2, 3}), zeros({2, 3})},
                      .attrs = attrs(1),
                      .message = "dy [3] is no diagonal of [2, 3]; that has the shape [2]"}}};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Diagonal copies diagonals, and its gradient puts them back") { check(cases()); }

}  // namespace troupe

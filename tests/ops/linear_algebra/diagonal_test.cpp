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
  return table_of(
      "Diagonal",
      {Case("a matrix", {x}, {vector({0, 5, 10})}), Case("above", {x}, {vector({2, 7})}, attrs(2)),
       Case("below", {x}, {vector({4, 9})}, attrs(-1)),
       Case("beyond the matrix", {x}, {zeros({0})}, attrs(4)),
       Case("far beyond the matrix", {x}, {zeros({0})}, attrs(INT64_MIN)),
       Case("other axes", {stack}, {matrix({{1, 8}, {3, 10}, {5, 12}})}, attrs(0, 0, 2)),
       Case("axes in the other order", {stack}, {matrix({{7}, {8}})}, attrs(1, -2, 0)),
       Case("of bool", {booleans(matrix({{1, 0}, {0, 1}}))}, {booleans(vector({1, 1}))}).as_typed(),
       Case("size one", {matrix({{5}})}, {vector({5})}),
       Case("empty", {zeros({2, 0, 3})}, {zeros({2, 0})}),
       Case("no matrices", {zeros({0, 2, 3})}, {zeros({0, 2})}),
       Case("DiagonalGradient", "back into a matrix", {vector({1, 2}), zeros({2, 3})},
            {matrix({{0, 1, 0}, {0, 0, 2}})}, attrs(1)),
       Case("DiagonalGradient", "back along other axes", {matrix({{1, 2}}), zeros({2, 1, 2})},
            {values({2, 1, 2}, {1, 0, 0, 2})}, attrs(0, 0, 2)),
       Case("DiagonalGradient", "nothing into a matrix", {zeros({0}), zeros({2, 2})},
            {zeros({2, 2})}, attrs(5)),
       Case("ReduceSum", "trace", {x}, {scalar(15)}).made_by(trace_of(0)),
       Case("ReduceSum", "traces of a batch, beside the diagonal", {stack}, {vector({9, 21})})
           .made_by(trace_of(-1)),
       Case("ReduceSum", "what is not on the diagonal is not looked at",
            {matrix({{1, NAN}, {INFINITY, 2}})}, {scalar(3)})
           .rough()
           .made_by(trace_of(0)),
       Case("ReduceSum", "trace of nothing", {zeros({2, 0, 0})}, {zeros({2})})
           .made_by(trace_of(0))},
      {Refused({vector({1, 2})}, "wants at least two dimensions to walk along, got ["),
       Refused({x}, "axis 2 is not there: with 2 dimensions", attrs(0, 0, 2)),
       Refused({x}, "walks along two axes, got 1 twice", attrs(0, 1, -1)),
       Refused("DiagonalGradient", {vector({1, 2, 3}), zeros({2, 3})},
               "dy [3] is no diagonal of [2, 3]; that has the shape [2]", attrs(1))});
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Diagonal copies diagonals, and its gradient puts them back") { check(cases()); }

}  // namespace troupe

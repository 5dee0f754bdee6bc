// Diag, Diagonal and its gradient, trace, and BandPart with tril and triu. Expected values are
// NumPy's.
#include <limits>

#include "ops/gradients.hpp"
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
constexpr int64_t kHighest = std::numeric_limits<int64_t>::max();

OpCase of(std::string name, std::string op, std::vector<Tensor> inputs, Tensor expected,
          Attrs attrs = {}) {
  return Case(std::move(op), std::move(name), std::move(inputs), {expected}, std::move(attrs));
}
Attrs band(int64_t low, int64_t high) { return {{"low", low}, {"high", high}}; }

std::vector<OpCase> diagonals() {
  return {of("a matrix", "Diag", {vector({1, 2})}, matrix({{1, 0}, {0, 2}})),
          of("two matrices", "Diag", {matrix({{1, 0}, {1, 1}})},
             values({2, 2, 2}, {1, 0, 0, 0, 1, 0, 0, 1})),
          of("size one", "Diag", {vector({1})}, matrix({{1}})),
          of("empty", "Diag", {zeros({2, 0})}, zeros({2, 0, 0})),
          of("square", "Diagonal", {iota({2, 2})}, vector({0, 3})),
          of("wide", "Diagonal", {iota({2, 3})}, vector({0, 4})),
          of("tall", "Diagonal", {iota({3, 2})}, vector({0, 3})),
          of("two matrices", "Diagonal", {iota({2, 2, 3})}, matrix({{0, 4}, {6, 10}})),
          of("size one", "Diagonal", {matrix({{1}})}, vector({1})),
          of("empty", "Diagonal", {zeros({2, 0, 3})}, zeros({2, 0})),
          of("wide", "DiagonalGradient", {vector({1, 2}), zeros({2, 3})},
             matrix({{1, 0, 0}, {0, 2, 0}})),
          of("tall", "DiagonalGradient", {vector({1, 2}), zeros({3, 2})},
             matrix({{1, 0}, {0, 2}, {0, 0}})),
          of("two matrices", "DiagonalGradient", {matrix({{1, 2}, {3, 4}}), zeros({2, 2, 2})},
             values({2, 2, 2}, {1, 0, 0, 2, 3, 0, 0, 4})),
          of("empty", "DiagonalGradient", {zeros({2, 0}), zeros({2, 3, 0})}, zeros({2, 3, 0}))};
}

std::vector<OpCase> bands() {
  const Tensor x = iota({3, 4}, 1);
  return {of("three diagonals", "BandPart", {iota({4, 4}, 1)},
             values({4, 4}, {1, 2, 0, 0, 5, 6, 7, 0, 0, 10, 11, 12, 0, 0, 15, 16}), band(-1, 1)),
          of("two matrices", "BandPart", {iota({2, 2, 3}, 1)},
             values({2, 2, 3}, {1, 2, 3, 0, 5, 6, 7, 8, 9, 0, 11, 12}), band(0, kHighest)),
          of("above the main one", "BandPart", {x},
             matrix({{0, 2, 3, 4}, {0, 0, 7, 8}, {0, 0, 0, 12}}), band(1, 3)),
          of("below the main one", "BandPart", {x},
             matrix({{0, 0, 0, 0}, {5, 0, 0, 0}, {9, 10, 0, 0}}), band(kLowest, -1)),
          of("all", "BandPart", {x}, x, band(kLowest, kHighest)),
          of("none", "BandPart", {x}, zeros({3, 4}), band(2, 1)),
          of("beyond the corners", "BandPart", {x}, zeros({3, 4}), band(4, 9)),
          of("before the corners", "BandPart", {x}, zeros({3, 4}), band(-9, -3)),
          of("NaN is left out", "BandPart", {matrix({{1, NAN}, {INFINITY, 1}})},
             matrix({{1, 0}, {0, 1}}), band(0, 0)),
          of("tall, above", "BandPart", {iota({3, 2}, 1)}, matrix({{1, 2}, {0, 4}, {0, 0}}),
             band(0, kHighest)),
          of("size one", "BandPart", {matrix({{1}})}, matrix({{1}}), band(0, 0)),
          of("empty", "BandPart", {zeros({2, 0})}, zeros({2, 0}), band(0, 0)),
          of("no rows", "BandPart", {zeros({0, 2})}, zeros({0, 2}), band(0, 0))};
}

const Table diag_table("diagonals are made, taken and kept", [] {
  OpCases all = {.values = diagonals()};
  for (OpCase& c : bands()) all.values.push_back(std::move(c));
  for (OpCase& c : all.values)
    if (c.name == "NaN is left out") c.smooth = false;
  all.errors = {
      Refused("Diag", {scalar(1)}, "wants diagonals [..., n], got a scalar; reshape it to [1]"),
      Refused("Diag", {zeros({1, 1, 1, 1, 1, 1, 1, 1})}, "would have more than 8 dimensions"),
      Refused("BandPart", {vector({1})}, "wants matrices [..., m, n], got [", band(0, 0))};
  return all;
});

Attrs attrs(int64_t offset, int64_t axis1 = -2, int64_t axis2 = -1) {
  return {{"offset", offset}, {"axis1", axis1}, {"axis2", axis2}};
}

BuildCase trace_of(int64_t offset) {
  return [=](Graph&, const std::vector<Output>& in) { return std::vector{trace(in[0], offset)}; };
}

const Table diagonal_table("Diagonal copies diagonals, and its gradient puts them back", [] {
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
});

}  // namespace

TEST_CASE("diag_part and its gradient are of the main diagonals of the last two dimensions") {
  Graph graph;
  const Output x = constant(graph, iota({2, 2, 3})), dy = constant(graph, matrix({{1, 2}, {3, 4}}));
  CHECK(same_bits(evaluate(diag_part(x)), matrix({{0, 4}, {6, 10}})));
  CHECK(same_bits(evaluate(diag_part_gradient(dy, x)),
                  values({2, 2, 3}, {1, 0, 0, 0, 2, 0, 3, 0, 0, 0, 4, 0})));
}

TEST_CASE("tril, triu and band_part name diagonals as NumPy and TensorFlow do") {
  Graph graph;
  const Output x = constant(graph, iota({3, 4}, 1));
  CHECK(same_bits(evaluate(tril(x)), matrix({{1, 0, 0, 0}, {5, 6, 0, 0}, {9, 10, 11, 0}})));
  CHECK(same_bits(evaluate(tril(x, 1)), matrix({{1, 2, 0, 0}, {5, 6, 7, 0}, {9, 10, 11, 12}})));
  CHECK(same_bits(evaluate(tril(x, -1)), matrix({{0, 0, 0, 0}, {5, 0, 0, 0}, {9, 10, 0, 0}})));
  CHECK(same_bits(evaluate(triu(x, 1)), matrix({{0, 2, 3, 4}, {0, 0, 7, 8}, {0, 0, 0, 12}})));
  CHECK(same_bits(evaluate(triu(x, -1)), matrix({{1, 2, 3, 4}, {5, 6, 7, 8}, {0, 10, 11, 12}})));
  CHECK(same_bits(evaluate(band_part(x, 1, 0)),
                  matrix({{1, 0, 0, 0}, {5, 6, 0, 0}, {0, 10, 11, 0}})));
  CHECK(same_bits(evaluate(band_part(x, -1, 0)), evaluate(tril(x))));
  CHECK(same_bits(evaluate(band_part(x, 0, -1)), evaluate(triu(x))));
}

}  // namespace troupe

// SumRows, and the push of its result.
#include "ops/state/pushes.hpp"
#include "tests/support/op_cases.hpp"
#include "troupe/ops/parameters.hpp"

namespace troupe {
namespace {

Attrs of_rows(int64_t rows) { return {{"rows", rows}}; }

const Table table("SumRows sums the rows of equal indices in their order", [] {
  return table_of(
      "SumRows",
      {Case("rows that come again are summed where they came first",
            {i64(vector({5, 2, 5, 0, 2})), matrix({{1, 2}, {3, 4}, {10, 20}, {7, 8}, {30, 40}})},
            {i64(vector({5, 2, 0})), matrix({{11, 22}, {33, 44}, {7, 8}})}, of_rows(6)),
       Case("indices of two dimensions, numbers as rows",
            {i32(matrix({{3, 1}, {3, 3}})), matrix({{1, 2}, {4, 8}})},
            {i64(vector({3, 1})), vector({13, 2})}, of_rows(4)),
       Case("no indices", {i64(zeros({0, 3})), zeros({0, 3, 2})}, {i64(zeros({0})), zeros({0, 2})},
            of_rows(9)),
       Case("rows of nothing", {i64(vector({4, 4})), zeros({2, 0})},
            {i64(vector({4})), zeros({1, 0})}, of_rows(9)),
       Case("infinity and NaN stay in their rows",
            {i64(vector({1, 0, 1})), vector({INFINITY, 3, -INFINITY})},
            {i64(vector({1, 0})), vector({NAN, 3})}, of_rows(2))},
      {Refused({i64(vector({1, 2})), matrix({{1, 2}})},
               "wants a row of values for each index, got indices [", of_rows(6)),
       Refused({i64(matrix({{1, 2}})), vector({1})}, "wants a row of values for each index",
               of_rows(3)),
       Refused({vector({1}), vector({1})}, "wants indices of i32 or i64, got f64", of_rows(3)),
       Refused({i64(vector({1})), i64(vector({1}))},
               "has no kernel for i64; cast to one of f32, f64", of_rows(3)),
       Refused({i64(vector({1, 3})), vector({1, 2})}, "index 3 (number 1 of 2) is not in [0, 3)",
               of_rows(3))
           .in_step(),
       Refused({i64(vector({-1})), vector({1})}, "index -1 (number 0 of 1) is not in [0, 3)",
               of_rows(3))
           .in_step()});
});

}  // namespace

TEST_CASE("SumRows finds each of many indices once") {
  Graph g;
  constexpr int64_t kCount = 50'000, kRows = 7'001;
  Tensor indices = Tensor::empty(DType::i64, {kCount});
  Tensor values = Tensor::empty(DType::f64, {kCount});
  std::vector<double> expected(kRows);
  for (int64_t i = 0; i < kCount; ++i) {
    indices.mutable_data<int64_t>()[i] = i * i % kRows;
    values.mutable_data<double>()[i] = static_cast<double>(i);
    expected[static_cast<size_t>(i * i % kRows)] += static_cast<double>(i);
  }
  const RowSparse sums = sum_rows(constant(g, indices), constant(g, values), kRows);
  const auto got = evaluate(g, {sums.indices, sums.values});
  std::vector<double> filled(kRows);
  for (int64_t k = 0; k < got[0].size(); ++k) {
    double& place = filled[static_cast<size_t>(got[0].data<int64_t>()[k])];
    CHECK(place == 0);
    place = got[1].data<double>()[k];
  }
  CHECK(filled == expected);
}

TEST_CASE("a push of rows says what does not fit its parameter") {
  Graph g;
  const Output w = parameter("w", fill(g, {5, 2}, 0, DType::f64));
  const Output indices = constant(g, i64(vector({1, 3}))), rows = constant(g, zeros({2, 2}));
  CHECK(g.node(push_row_gradient(w, {indices, rows}, sgd(1)).node).outputs.empty());
  CHECK_THROWS_WITH_AS(push_row_gradient(w, {indices, constant(g, zeros({2, 3}))}, sgd(1)),
                       doctest::Contains("the rows are f64[2, 3], but the parameter w is"), Error);
  CHECK_THROWS_WITH_AS(push_row_gradient(w, {indices, constant(g, f32(zeros({2, 2})))}, sgd(1)),
                       doctest::Contains("the rows are f32[2, 2]"), Error);
  CHECK_THROWS_WITH_AS(push_row_gradient(rows, {indices, rows}, sgd(1)),
                       doctest::Contains("wants what parameter() returned"), Error);
  CHECK_THROWS_WITH_AS(push_row_gradient(w, {constant(g, i64(vector({1}))), rows}, sgd(1)),
                       doctest::Contains("wants indices [k] and values [k, row...]"), Error);
  CHECK_THROWS_WITH_AS(push_row_gradient(w, {{}, rows}, sgd(1)),
                       doctest::Contains("undefined Output"), Error);
}

}  // namespace troupe

// Reductions over segments, sorted and not, and their gradients.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs segments(int64_t n, bool sorted = true) { return {{"segments", n}, {"sorted", sorted}}; }

const Tensor& five_rows() {
  static const Tensor x = matrix({{1, -2}, {3, 4}, {-5, 6}, {7, 8}, {9, -10}});
  return x;
}

std::vector<OpError> errors(const std::string& op) {
  return {{.op = op,
           .inputs = {zeros({3, 2}), i32(zeros({2}))},
           .message = "wants an id for each row: the sizes of ids [2] are not the first of [3, 2]"},
          {.op = op,
           .inputs = {zeros({3, 2}), i32(zeros({3, 2}))},
           .message = "wants ids [n], one for each row, got ["},
          {.op = op,
           .inputs = {zeros({3}), i32(zeros({}))},
           .attrs = segments(2, false),
           .message = "wants ids of one dimension or more, got []"},
          {.op = op, .inputs = {scalar(1), i32(zeros({1}))}, .message = "are not the first of []"},
          {.op = op,
           .inputs = {zeros({2}), zeros({2})},
           .message = "wants indices of i32 or i64, got f64; cast them"},
          {.op = op,
           .inputs = {u8(zeros({2})), i32(zeros({2}))},
           .message = "has no kernel for u8; cast to one of f32, f64, i32, i64"},
          {.op = op,
           .inputs = {zeros({2}), i32(zeros({2}))},
           .attrs = segments(-2),
           .message = "wants a number of segments of at least 0, or -1"},
          {.op = op,
           .inputs = {zeros({3}), i32(vector({0, 2, 1}))},
           .attrs = segments(3),
           .message = "id 1 (number 2 of 3) comes after 2; sort the rows by id",
           .when_run = true},
          {.op = op,
           .inputs = {zeros({2}), i64(vector({0, 2}))},
           .attrs = segments(2),
           .message = "index 2 (number 1 of 2) is not in [0, 2)",
           .when_run = true},
          {.op = op,
           .inputs = {zeros({2}), i64(vector({0, -1}))},
           .attrs = segments(2, false),
           .message = "index -1 (number 1 of 2) is not in [0, 2)",
           .when_run = true}};
}

// The results of each reduction for the same rows; a segment without rows has `nothing`.
struct Results {
  std::string op;
  Tensor sorted, unsorted, pairs;
  double nothing;
};

OpCases cases_of(const Results& r) {
  OpCases cases = {.errors = errors(r.op)};
  const auto add = [&](OpCase c) {
    c.op = r.op;
    cases.values.push_back(std::move(c));
  };
  add({.name = "rows in order, with a gap",
       .inputs = {five_rows(), i32(vector({0, 0, 2, 2, 2}))},
       .attrs = segments(4),
       .expected = {r.sorted},
       .as_written = true,
       .smooth = std::isfinite(r.nothing)});
  add({.name = "ids in any order",
       .inputs = {five_rows(), i64(vector({1, 0, 1, 1, 0}))},
       .attrs = segments(2, false),
       .expected = {r.unsorted}});
  add({.name = "ids of several dimensions",
       .inputs = {values({2, 2}, {2, 3, -4, 5}), i32(matrix({{1, 0}, {0, 1}}))},
       .attrs = segments(2, false),
       .expected = {r.pairs}});
  add({.name = "as many segments as the greatest id asks for",
       .inputs = {five_rows(), i64(vector({1, 0, 1, 1, 0}))},
       .attrs = segments(-1, false),
       .expected = {r.unsorted}});
  add({.name = "no rows, no segments",
       .inputs = {zeros({0, 2}), zeros({0}, DType::i32)},
       .attrs = segments(-1),
       .expected = {zeros({0, 2})}});
  add({.name = "one row",
       .inputs = {matrix({{2, 3}}), i32(vector({0}))},
       .attrs = segments(1),
       .expected = {matrix({{2, 3}})}});
  add({.name = "no rows",
       .inputs = {zeros({0, 2}), zeros({0}, DType::i32)},
       .attrs = segments(1),
       .expected = {full({1, 2}, r.nothing)},
       .as_written = true});
  add({.name = "no segments",
       .inputs = {zeros({0, 2}), zeros({0}, DType::i32)},
       .attrs = segments(0),
       .expected = {zeros({0, 2})}});
  add({.name = "empty rows",
       .inputs = {zeros({3, 0}), i32(vector({0, 0, 1}))},
       .attrs = segments(2),
       .expected = {zeros({2, 0})}});
  add({.name = "NaN is in one segment only",
       .inputs = {vector({1, NAN, 2, 2}), i32(vector({0, 0, 1, 1}))},
       .attrs = segments(2),
       .expected = {vector({NAN, r.op == "SegmentSum" || r.op == "SegmentProd" ? 4.0 : 2.0})},
       .smooth = false});
  return cases;
}

OpCases sum_cases() {
  OpCases cases = cases_of({.op = "SegmentSum",
                            .sorted = matrix({{4, 2}, {0, 0}, {11, 4}, {0, 0}}),
                            .unsorted = matrix({{12, -6}, {3, 12}}),
                            .pairs = vector({-1, 7}),
                            .nothing = 0});
  cases.values.push_back({.name = "integers wrap around",
                          .op = "SegmentSum",
                          .inputs = {i32(vector({2147483647, 1})), i32(vector({0, 0}))},
                          .attrs = segments(1),
                          .expected = {i32(vector({-2147483648.0}))},
                          .as_written = true});
  return cases;
}
const ListedCases listed_sum(sum_cases);

OpCases max_cases() {
  OpCases cases =
      cases_of({.op = "SegmentMax",
                .sorted = matrix({{3, 4}, {-INFINITY, -INFINITY}, {9, 8}, {-INFINITY, -INFINITY}}),
                .unsorted = matrix({{9, 4}, {7, 8}}),
                .pairs = vector({3, 5}),
                .nothing = -INFINITY});
  cases.values.push_back({.name = "no integers are the lowest one",
                          .op = "SegmentMax",
                          .inputs = {i32(vector({5})), i32(vector({1}))},
                          .attrs = segments(2),
                          .expected = {i32(vector({-2147483648.0, 5}))},
                          .as_written = true});
  cases.values.push_back(
      {.name = "infinities",
       .op = "SegmentMax",
       .inputs = {vector({-INFINITY, -INFINITY, INFINITY}), i32(vector({0, 0, 1}))},
       .attrs = segments(2),
       .expected = {vector({-INFINITY, INFINITY})},
       .smooth = false});
  return cases;
}
const ListedCases listed_max(max_cases);

OpCases min_cases() {
  OpCases cases =
      cases_of({.op = "SegmentMin",
                .sorted = matrix({{1, -2}, {INFINITY, INFINITY}, {-5, -10}, {INFINITY, INFINITY}}),
                .unsorted = matrix({{3, -10}, {-5, -2}}),
                .pairs = vector({-4, 2}),
                .nothing = INFINITY});
  cases.values.push_back({.name = "no integers are the greatest one",
                          .op = "SegmentMin",
                          .inputs = {i32(vector({5})), i32(vector({1}))},
                          .attrs = segments(2),
                          .expected = {i32(vector({2147483647, 5}))},
                          .as_written = true});
  return cases;
}
const ListedCases listed_min(min_cases);

OpCases prod_cases() {
  OpCases cases = cases_of({.op = "SegmentProd",
                            .sorted = matrix({{3, -8}, {1, 1}, {-315, -480}, {1, 1}}),
                            .unsorted = matrix({{27, -40}, {-35, -96}}),
                            .pairs = vector({-12, 10}),
                            .nothing = 1});
  cases.values.push_back({.name = "one zero",
                          .op = "SegmentProd",
                          .inputs = {vector({2, 0, 3, 5}), i32(vector({0, 0, 0, 1}))},
                          .attrs = segments(2),
                          .expected = {vector({0, 5})}});
  cases.values.push_back({.name = "two zeros: the first derivatives are right",
                          .op = "SegmentProd",
                          .inputs = {vector({0, 2, 0}), i32(vector({0, 0, 0}))},
                          .attrs = segments(1),
                          .expected = {vector({0})},
                          .twice = false});
  cases.values.push_back({.name = "too large",
                          .op = "SegmentProd",
                          .inputs = {vector({1e200, 1e200}), i32(vector({0, 0}))},
                          .attrs = segments(1),
                          .expected = {vector({INFINITY})},
                          .as_written = true,
                          .smooth = false});
  return cases;
}
const ListedCases listed_prod(prod_cases);

}  // namespace

TEST_CASE("SegmentSum adds the rows of a segment") { check(sum_cases()); }
TEST_CASE("SegmentMax finds the greatest of a segment") { check(max_cases()); }
TEST_CASE("SegmentMin finds the least of a segment") { check(min_cases()); }
TEST_CASE("SegmentProd multiplies the rows of a segment") { check(prod_cases()); }

// Listed under ReduceMean, which has the dtypes of means.
TEST_CASE("segment means divide by the number of rows, and by no less than 1") {
  const auto mean = [](bool sorted) {
    return [sorted](Graph&, const std::vector<Output>& in) {
      return std::vector{sorted ? segment_mean(in[0], in[1], 3)
                                : unsorted_segment_mean(in[0], in[1], 3)};
    };
  };
  check({.values = {{.name = "in order",
                     .op = "ReduceMean",
                     .inputs = {five_rows(), i32(vector({0, 0, 2, 2, 2}))},
                     .expected = {matrix({{2, 1}, {0, 0}, {11.0 / 3, 4.0 / 3}})},
                     .build = mean(true)},
                    {.name = "in any order",
                     .op = "ReduceMean",
                     .inputs = {five_rows(), i64(vector({1, 0, 1, 1, 0}))},
                     .expected = {matrix({{6, -3}, {1, 4}, {0, 0}})},
                     .build = mean(false)},
                    {.name = "ids of several dimensions",
                     .op = "ReduceMean",
                     .inputs = {values({2, 2, 1}, {2, 3, -4, 5}), i32(matrix({{1, 0}, {1, 1}}))},
                     .expected = {matrix({{3}, {1}, {0}})},
                     .build = mean(false)}},
         .errors = {{.op = "ReduceMean",
                     .inputs = {i32(zeros({2})), i32(zeros({2}))},
                     .message = "are of f32 or f64, got i32; cast it",
                     .build = mean(true)}}});
}

TEST_CASE("without a number of segments, the greatest id tells it") {
  Graph graph;
  const Output x = constant(graph, f32(five_rows()));
  const Output ids = constant(graph, i32(vector({0, 0, 2, 2, 2})));
  const Output y = segment_sum(x, ids);
  CHECK(y.shape() == Shape{-1, 2});
  CHECK(same_bits(evaluate(y), f32(matrix({{4, 2}, {0, 0}, {11, 4}}))));
  CHECK(evaluate(segment_mean(x, ids)).shape() == Shape{3, 2});
  const Output dx = gradients({segment_max(x, ids)}, {x})[0];
  CHECK(same_bits(evaluate(dx), f32(matrix({{0, 0}, {1, 1}, {0, 0}, {0, 1}, {1, 0}}))));
  const Output none = constant(graph, zeros({0}, DType::i32));
  CHECK(evaluate(segment_sum(constant(graph, f32(zeros({0, 2}))), none)).shape() == Shape{0, 2});
}

TEST_CASE("the greatest of a segment share its gradient, NaN before all") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, {5});
  const Output ids = constant(graph, i32(vector({0, 0, 0, 1, 1})));
  const Output dx = gradients({segment_max(x, ids, 2)}, {x})[0];
  CHECK(!difference(evaluate(dx, {{x, vector({4, 1, 4, NAN, 7})}}), vector({0.5, 0, 0.5, 1, 0})));
}

TEST_CASE("sums over segments are as exact as reduce_sum, in any order of rows") {
  Graph graph;
  const int64_t n = 1 << 16;
  const Output x = constant(graph, f32(full({2 * n}, 0.1)));
  Tensor ids = i32(zeros({2 * n}));
  for (int64_t i = 0; i < 2 * n; ++i) ids.mutable_data<int32_t>()[i] = i % 2;
  const Output sums = unsorted_segment_sum(x, constant(graph, ids), 2);
  const Output one = reduce_sum(constant(graph, f32(full({n}, 0.1))), {.keep_dims = true});
  CHECK(same_bits(evaluate(sums), evaluate(concat({one, one}, 0))));
}

}  // namespace troupe

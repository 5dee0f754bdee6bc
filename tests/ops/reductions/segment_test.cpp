// Reductions over segments, sorted and not, and their gradients.
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs segments(int64_t n, bool sorted = true) { return {{"segments", n}, {"sorted", sorted}}; }

const Tensor& five_rows() {
  static const Tensor x = matrix({{1, -2}, {3, 4}, {-5, 6}, {7, 8}, {9, -10}});
  return x;
}

std::vector<OpError> errors(const std::string& op) {
  return {
      Refused(op, {zeros({3, 2}), i32(zeros({2}))},
              "wants an id for each row: the sizes of ids [2] are not the first of [3, 2]"),
      Refused(op, {zeros({3, 2}), i32(zeros({3, 2}))}, "wants ids [n], one for each row, got ["),
      Refused(op, {zeros({3}), i32(zeros({}))}, "wants ids of one dimension or more, got []",
              segments(2, false)),
      Refused(op, {scalar(1), i32(zeros({1}))}, "are not the first of []"),
      Refused(op, {zeros({2}), zeros({2})}, "wants indices of i32 or i64, got f64; cast them"),
      Refused(op, {u8(zeros({2})), i32(zeros({2}))},
              "has no kernel for u8; cast to one of f32, f64, i32, i64"),
      Refused(op, {zeros({2}), i32(zeros({2}))}, "wants a number of segments of at least 0, or -1",
              segments(-2)),
      Refused(op, {zeros({3}), i32(vector({0, 2, 1}))},
              "id 1 (number 2 of 3) comes after 2; sort the rows by id", segments(3))
          .in_step(),
      Refused(op, {zeros({2}), i64(vector({0, 2}))}, "index 2 (number 1 of 2) is not in [0, 2)",
              segments(2))
          .in_step(),
      Refused(op, {zeros({2}), i64(vector({0, -1}))}, "index -1 (number 1 of 2) is not in [0, 2)",
              segments(2, false))
          .in_step()};
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
  add(Case("ids in any order", {five_rows(), i64(vector({1, 0, 1, 1, 0}))}, {r.unsorted},
           segments(2, false)));
  add(Case("ids of several dimensions",
           {values({2, 2}, {2, 3, -4, 5}), i32(matrix({{1, 0}, {0, 1}}))}, {r.pairs},
           segments(2, false)));
  add(Case("as many segments as the greatest id asks for",
           {five_rows(), i64(vector({1, 0, 1, 1, 0}))}, {r.unsorted}, segments(-1, false)));
  add(Case("no rows, no segments", {zeros({0, 2}), zeros({0}, DType::i32)}, {zeros({0, 2})},
           segments(-1)));
  add(Case("one row", {matrix({{2, 3}}), i32(vector({0}))}, {matrix({{2, 3}})}, segments(1)));
  add(Case("no rows", {zeros({0, 2}), zeros({0}, DType::i32)}, {full({1, 2}, r.nothing)},
           segments(1))
          .as_typed());
  add(Case("no segments", {zeros({0, 2}), zeros({0}, DType::i32)}, {zeros({0, 2})}, segments(0)));
  add(Case("empty rows", {zeros({3, 0}), i32(vector({0, 0, 1}))}, {zeros({2, 0})}, segments(2)));
  add(Case("NaN is in one segment only", {vector({1, NAN, 2, 2}), i32(vector({0, 0, 1, 1}))},
           {vector({NAN, r.op == "SegmentSum" || r.op == "SegmentProd" ? 4.0 : 2.0})}, segments(2))
          .rough());
  return cases;
}

const Table sum_table("SegmentSum adds the rows of a segment", [] {
  OpCases cases = cases_of({.op = "SegmentSum",
                            .sorted = matrix({{4, 2}, {0, 0}, {11, 4}, {0, 0}}),
                            .unsorted = matrix({{12, -6}, {3, 12}}),
                            .pairs = vector({-1, 7}),
                            .nothing = 0});
  cases.values.push_back(Case("SegmentSum", "integers wrap around",
                              {i32(vector({2147483647, 1})), i32(vector({0, 0}))},
                              {i32(vector({-2147483648.0}))}, segments(1))
                             .as_typed());
  return cases;
});

const Table max_table("SegmentMax finds the greatest of a segment", [] {
  OpCases cases =
      cases_of({.op = "SegmentMax",
                .sorted = matrix({{3, 4}, {-INFINITY, -INFINITY}, {9, 8}, {-INFINITY, -INFINITY}}),
                .unsorted = matrix({{9, 4}, {7, 8}}),
                .pairs = vector({3, 5}),
                .nothing = -INFINITY});
  cases.values.push_back(Case("SegmentMax", "no integers are the lowest one",
                              {i32(vector({5})), i32(vector({1}))},
                              {i32(vector({-2147483648.0, 5}))}, segments(2))
                             .as_typed());
  cases.values.push_back(Case("SegmentMax", "infinities",
                              {vector({-INFINITY, -INFINITY, INFINITY}), i32(vector({0, 0, 1}))},
                              {vector({-INFINITY, INFINITY})}, segments(2))
                             .rough());
  return cases;
});

const Table min_table("SegmentMin finds the least of a segment", [] {
  OpCases cases =
      cases_of({.op = "SegmentMin",
                .sorted = matrix({{1, -2}, {INFINITY, INFINITY}, {-5, -10}, {INFINITY, INFINITY}}),
                .unsorted = matrix({{3, -10}, {-5, -2}}),
                .pairs = vector({-4, 2}),
                .nothing = INFINITY});
  cases.values.push_back(Case("SegmentMin", "no integers are the greatest one",
                              {i32(vector({5})), i32(vector({1}))}, {i32(vector({2147483647, 5}))},
                              segments(2))
                             .as_typed());
  return cases;
});

const Table prod_table("SegmentProd multiplies the rows of a segment", [] {
  OpCases cases = cases_of({.op = "SegmentProd",
                            .sorted = matrix({{3, -8}, {1, 1}, {-315, -480}, {1, 1}}),
                            .unsorted = matrix({{27, -40}, {-35, -96}}),
                            .pairs = vector({-12, 10}),
                            .nothing = 1});
  cases.values.push_back(Case("SegmentProd", "one zero",
                              {vector({2, 0, 3, 5}), i32(vector({0, 0, 0, 1}))}, {vector({0, 5})},
                              segments(2)));
  cases.values.push_back(Case("SegmentProd", "two zeros: the first derivatives are right",
                              {vector({0, 2, 0}), i32(vector({0, 0, 0}))}, {vector({0})},
                              segments(1))
                             .once());
  cases.values.push_back(Case("SegmentProd", "too large",
                              {vector({1e200, 1e200}), i32(vector({0, 0}))}, {vector({INFINITY})},
                              segments(1))
                             .as_typed()
                             .rough());
  return cases;
});

}  // namespace

// Listed under ReduceMean, which has the dtypes of means.
TEST_CASE("segment means divide by the number of rows, and by no less than 1") {
  const auto mean = [](bool sorted) {
    return [sorted](Graph&, const std::vector<Output>& in) {
      return std::vector{sorted ? segment_mean(in[0], in[1], 3)
                                : unsorted_segment_mean(in[0], in[1], 3)};
    };
  };
  check(table_of("ReduceMean",
                 {Case("in order", {five_rows(), i32(vector({0, 0, 2, 2, 2}))},
                       {matrix({{2, 1}, {0, 0}, {11.0 / 3, 4.0 / 3}})})
                      .made_by(mean(true)),
                  Case("in any order", {five_rows(), i64(vector({1, 0, 1, 1, 0}))},
                       {matrix({{6, -3}, {1, 4}, {0, 0}})})
                      .made_by(mean(false)),
                  Case("ids of several dimensions",
                       {values({2, 2, 1}, {2, 3, -4, 5}), i32(matrix({{1, 0}, {1, 1}}))},
                       {matrix({{3}, {1}, {0}})})
                      .made_by(mean(false))},
                 {Refused({i32(zeros({2})), i32(zeros({2}))}, "are of f32 or f64, got i32; cast it")
                      .made_by(mean(true))}));
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

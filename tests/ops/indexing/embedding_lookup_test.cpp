// embedding_lookup.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

BuildCase lookup(Combiner combiner) {
  return [=](Graph&, const std::vector<Output>& in) {
    return std::vector{embedding_lookup(in[0], in[1], combiner)};
  };
}

OpCases cases() {
  const Tensor table = matrix({{1, 2}, {3, 4}, {5, -6}}), ids = i32(matrix({{2, 0, 2}, {1, 1, 0}}));
  return table_of(
      "Gather",
      {Case("rows", {table, ids}, {values({2, 3, 2}, {5, -6, 1, 2, 5, -6, 3, 4, 3, 4, 1, 2})})
           .made_by(lookup(Combiner::none)),
       Case("sums", {table, ids}, {matrix({{11, -10}, {7, 10}})}).made_by(lookup(Combiner::sum)),
       Case("means", {table, ids},
            {matrix({{3.6666666666666665, -3.3333333333333335},
                     {2.3333333333333335, 3.3333333333333335}})})
           .made_by(lookup(Combiner::mean)),
       Case("sums by the root of their number", {table, ids},
            {matrix({{6.3508529610858835, -5.773502691896258},
                     {4.041451884327381, 5.773502691896258}})})
           .made_by(lookup(Combiner::sqrtn)),
       Case("rows of f32", {f32(table), i64(vector({1, 2}))},
            {f32(vector({5.65685424949238, -1.414213562373095}))})
           .made_by(lookup(Combiner::sqrtn)),
       Case("rows that are matrices",
            {values({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), i64(values({1, 2, 1}, {1, 0}))},
            {values({1, 2, 2, 2}, {5, 6, 7, 8, 1, 2, 3, 4})})
           .made_by(lookup(Combiner::sqrtn)),
       Case("sums of nothing", {table, zeros({2, 0}, DType::i32)}, {zeros({2, 2})})
           .made_by(lookup(Combiner::sum)),
       Case("means of nothing", {table, zeros({1, 0}, DType::i32)}, {matrix({{NAN, NAN}})})
           .rough()
           .made_by(lookup(Combiner::sqrtn))},
      {Refused({table, i32(scalar(0))}, "combines over the last dimension of ids, got a scalar")
           .made_by(lookup(Combiner::mean)),
       Refused({table, ids}, "wants indices of i32 or i64, got f64")
           .made_by([](Graph&, const std::vector<Output>& in) {
             return std::vector{embedding_lookup(in[0], in[0])};
           }),
       Refused({table, i32(vector({3}))}, "index 3 (number 0 of 1) is not in [0, 3)")
           .in_step()
           .made_by(lookup(Combiner::sum))});
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("embedding_lookup combines rows of a table") { check(cases()); }

}  // namespace troupe

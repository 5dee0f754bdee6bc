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
  return {.values = {{.name = "rows",
                      .op = "Gather",
                      .inputs = {table, ids},
                      .expected = {values({2, 3, 2}, {5, -6, 1, 2, 5, -6, 3, 4, 3, 4, 1, 2})},
                      .build = lookup(Combiner::none)},
                     {.name = "sums",
                      .op = "Gather",
                      .inputs = {table, ids},
                      .expected = {matrix({{11, -10}, {7, 10}})},
                      .build = lookup(Combiner::sum)},
                     {.name = "means",
                      .op = "Gather",
                      .inputs = {table, ids},
                      .expected = {matrix({{3.6666666666666665, -3.3333333333333335},
                                           {2.3333333333333335, 3.3333333333333335}})},
                      .build = lookup(Combiner::mean)},
                     {.name = "sums by the root of their number",
                      .op = "Gather",
                      .inputs = {table, ids},
                      .expected = {matrix({{6.3508529610858835, -5.773502691896258},
                                           {4.041451884327381, 5.773502691896258}})},
                      .build = lookup(Combiner::sqrtn)},
                     {.name = "rows of f32",
                      .op = "Gather",
                      .inputs = {f32(table), i64(vector({1, 2}))},
                      .expected = {f32(vector({5.65685424949238, -1.414213562373095}))},
                      .build = lookup(Combiner::sqrtn)},
                     {.name = "rows that are matrices",
                      .op = "Gather",
                      .inputs = {values({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}),
                                 i64(values({1, 2, 1}, {1, 0}))},
                      .expected = {values({1, 2, 2, 2}, {5, 6, 7, 8, 1, 2, 3, 4})},
                      .build = lookup(Combiner::sqrtn)},
                     {.name = "sums of nothing",
                      .op = "Gather",
                      .inputs = {table, zeros({2, 0}, DType::i32)},
                      .expected = {zeros({2, 2})},
                      .build = lookup(Combiner::sum)},
                     {.name = "means of nothing",
                      .op = "Gather",
                      .inputs = {table, zeros({1, 0}, DType::i32)},
                      .expected = {matrix({{NAN, NAN}})},
                      .build = lookup(Combiner::sqrtn),
                      .smooth = false}},
          .errors = {{.op = "Gather",
                      .inputs = {table, i32(scalar(0))},
                      .message = "combines over the last dimension of ids, got a scalar",
                      .build = lookup(Combiner::mean)},
                     {.op = "Gather",
                      .inputs = {table, ids},
                      .message = "wants indices of i32 or i64, got f64",
                      .build =
                          [](Graph&, const std::vector<Output>& in) {
                            return std::vector{embedding_lookup(in[0], in[0])};
                          }},
                     {.op = "Gather",
                      .inputs = {table, i32(vector({3}))},
                      .message = "index 3 (number 0 of 1) is not in [0, 3)",
                      .build = lookup(Combiner::sum),
                      .when_run = true}}};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("embedding_lookup combines rows of a table") { check(cases()); }

}  // namespace troupe

// Gather and its gradient, GatherNd, ScatterNd and embedding_lookup.
#include "ops/gradients.hpp"
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

const Table gather_table("Gather copies rows, and its gradient sums into them", [] {
  const Tensor x = matrix({{1, 2}, {3, 4}, {5, 6}});
  return table_of(
      "Gather",
      {Case("rows", {x, i32(vector({2, 0, 2}))}, {matrix({{5, 6}, {1, 2}, {5, 6}})}),
       Case("a matrix of indices", {vector({10, 20, 30}), i64(matrix({{0, 2}, {1, 1}}))},
            {matrix({{10, 30}, {20, 20}})}),
       Case("one index", {x, i32(scalar(1))}, {vector({3, 4})}),
       Case("rows of f32", {f32(x), i32(vector({1}))}, {f32(matrix({{3, 4}}))}),
       Case("rows of bool", {booleans(vector({1, 0})), i64(vector({1, 0, 0}))},
            {booleans(vector({0, 1, 1}))}),
       Case("no indices", {x, zeros({0}, DType::i32)}, {zeros({0, 2})}),
       Case("no indices into no rows", {zeros({0, 2}), zeros({0}, DType::i32)}, {zeros({0, 2})}),
       Case("empty rows", {zeros({3, 0}), i32(vector({2}))}, {zeros({1, 0})}),
       Case("GatherGradient", "sums into rows",
            {matrix({{1, 2}, {3, 4}, {5, 6}}), i32(vector({2, 0, 2})), zeros({4, 2})},
            {matrix({{3, 4}, {0, 0}, {6, 8}, {0, 0}})}),
       Case("GatherGradient", "one index", {scalar(3), i64(scalar(1)), zeros({2})},
            {vector({0, 3})}),
       Case("GatherGradient", "in the order of the indices",
            {f32(vector({1e8, 1, -1e8})), i32(vector({0, 0, 0})), f32(zeros({1}))},
            {f32(vector({0}))})
           .within(0)
           .as_typed()
           .rough(),
       Case("GatherGradient", "no indices", {zeros({0, 2}), zeros({0}, DType::i32), zeros({3, 2})},
            {zeros({3, 2})})},
      {
          Refused({scalar(1), i32(vector({0}))}, "wants rows to choose from, got a scalar"),
          Refused({x, vector({0})}, "wants indices of i32 or i64, got f64; cast them"),
          Refused({zeros({1, 1, 1, 1, 1, 1}), zeros({1, 1, 1, 1}, DType::i32)},
                  "would have more than 8 dimensions"),
          Refused("GatherGradient", {zeros({2, 2}), zeros({3}, DType::i32), zeros({4, 2})},
                  "dy [2, 2] is not what rows of [4, 2] by indices [3] give"),
          Refused("GatherGradient", {zeros({1}), zeros({1}, DType::i32), f32(zeros({4}))},
                  "dy and x_like must have one dtype, got f64 and f32"),
      });
});

OpCase gathered(std::string name, Tensor x, Tensor indices, int64_t k, Tensor expected) {
  return Case("GatherNd", std::move(name), {x, indices}, {expected}, {{"coordinates", k}});
}

OpCase scattered(std::string name, Tensor indices, Tensor updates, Shape shape, Tensor expected) {
  return Case("ScatterNd", std::move(name), {indices, updates}, {expected}, {{"shape", shape}});
}

OpCase exact(OpCase c) {
  c.tolerance = 0;
  c.as_written = true;
  c.smooth = false;
  return c;
}

std::vector<OpCase> values_of_both() {
  const Tensor x = iota({2, 3});
  return {
      gathered("elements", x, i32(matrix({{0, 2}, {1, 0}})), 2, vector({2, 3})),
      gathered("rows", x, i32(matrix({{1}, {0}, {1}})), 1,
               matrix({{3, 4, 5}, {0, 1, 2}, {3, 4, 5}})),
      gathered("a matrix of indices", iota({2, 2, 2}), i64(values({1, 2, 2}, {1, 0, 0, 1})), 2,
               values({1, 2, 2}, {4, 5, 2, 3})),
      gathered("one index", x, i64(vector({1, 2})), 2, scalar(5)),
      gathered("no coordinates: all of x, twice", vector({1, 2}), zeros({2, 0}, DType::i32), 0,
               matrix({{1, 2}, {1, 2}})),
      gathered("rows of f32", f32(x), i32(matrix({{1}})), 1, f32(matrix({{3, 4, 5}}))),
      gathered("elements of bool", booleans(vector({0, 1})), i32(matrix({{1}, {1}, {0}})), 1,
               booleans(vector({1, 1, 0}))),
      gathered("no indices", x, zeros({0, 2}, DType::i32), 2, zeros({0})),
      gathered("no indices into nothing", zeros({0, 2}), zeros({0, 1}, DType::i64), 1,
               zeros({0, 2})),
      gathered("empty rows", zeros({3, 0}), i32(matrix({{2}})), 1, zeros({1, 0})),
      scattered("elements are added", i32(matrix({{0, 2}, {1, 0}, {0, 2}})), vector({1, 2, 4}),
                {2, 3}, matrix({{0, 0, 5}, {2, 0, 0}})),
      scattered("rows", i64(matrix({{2}, {0}})), matrix({{1, 2}, {3, 4}}), {3, 2},
                matrix({{3, 4}, {0, 0}, {1, 2}})),
      scattered("long rows", i32(matrix({{0}, {0}})), iota({2, 40}), {1, 40}, iota({1, 40}, 40, 2)),
      scattered("one element", i32(vector({1})), scalar(1), {2}, vector({0, 1})),
      scattered("no coordinates", zeros({2, 0}, DType::i32), iota({2, 2}), {2}, vector({2, 4})),
      scattered("no updates", zeros({0, 1}, DType::i32), zeros({0, 2}), {3, 2}, zeros({3, 2})),
      scattered("into nothing", zeros({0, 1}, DType::i32), zeros({0}), {0}, zeros({0})),
      exact(scattered("in the order of the indices", i32(matrix({{0}, {0}, {0}})),
                      f32(vector({1e8, 1, -1e8})), {1}, f32(vector({0})))),
      exact(scattered("u8 wraps around", i32(matrix({{0}, {0}})), u8(vector({200, 100})), {1},
                      u8(vector({44})))),
      exact(scattered("i32 wraps around", i32(matrix({{0}, {0}})), i32(vector({2147483647, 1})),
                      {1}, i32(vector({-2147483648.0})))),
      exact(scattered("infinities and NaN", i32(matrix({{0}, {0}, {1}})),
                      vector({INFINITY, -INFINITY, INFINITY}), {3}, vector({NAN, INFINITY, 0})))};
}

const Table gather_nd_table("GatherNd copies slices, and ScatterNd adds them to zeros", [] {
  const auto coordinates = [](int64_t k) { return Attrs{{"coordinates", k}}; };
  const auto shaped = [](Shape shape) { return Attrs{{"shape", shape}}; };
  return table_of(
      "GatherNd", values_of_both(),
      {Refused({zeros({2}), zeros({1, 2}, DType::i32)}, "have 2 coordinates, but [",
               coordinates(2)),
       Refused({zeros({2}), zeros({}, DType::i32)},
               "wants indices [..., k] of k coordinates each, got a scalar", coordinates(1)),
       Refused({zeros({2}), zeros({3, 1}, DType::i32)},
               "coordinates are 0, but indices [3, 1] have 1 each", coordinates(0)),
       Refused({zeros({2}), zeros({3, 1})}, "wants indices of i32 or i64, got f64; cast them",
               coordinates(1)),
       Refused({zeros({1, 1, 1, 1, 1, 1}), zeros({1, 1, 1, 1, 1}, DType::i32)},
               "would have more than 8 dimensions", coordinates(1)),
       Refused({zeros({2, 3}), i32(matrix({{0, 2}, {1, 3}}))},
               "coordinate 1 of index number 1 of 2 is 3, which is not in [0, 3)", coordinates(2))
           .in_step(),
       Refused({zeros({0, 3}), i64(matrix({{0}}))},
               "coordinate 0 of index number 0 of 1 is 0, which is not in [0, 0)", coordinates(1))
           .in_step(),
       Refused("ScatterNd", {zeros({2, 1}, DType::i32), zeros({3, 2})},
               "updates [3, 2] are not the slices of [3, 2] that indices [2, 1]", shaped({3, 2})),
       Refused("ScatterNd", {zeros({2, 1}, DType::i32), zeros({2})},
               "wants a shape without -1, got [-1]", shaped({-1})),
       Refused("ScatterNd", {zeros({2, 1}), zeros({2})}, "wants indices of i32 or i64, got f64",
               shaped({3})),
       Refused("ScatterNd", {zeros({2, 1}, DType::i32), booleans(zeros({2}))},
               "has no kernel for bool; cast to one of f32, f64, i32, i64, u8", shaped({3})),
       Refused("ScatterNd", {i32(matrix({{0}, {-1}})), zeros({2})},
               "coordinate 0 of index number 1 of 2 is -1, which is not in [0, 3)", shaped({3}))
           .in_step()});
});

BuildCase lookup(Combiner combiner) {
  return [=](Graph&, const std::vector<Output>& in) {
    return std::vector{embedding_lookup(in[0], in[1], combiner)};
  };
}

const Table embedding_lookup_table("embedding_lookup combines rows of a table", [] {
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
});

}  // namespace

TEST_CASE("an index out of range is an error that names index and size") {
  Graph graph;
  const Output x = constant(graph, f32(zeros({3, 2})));
  for (const auto& [indices, text] :
       {std::pair{i32(vector({0, 3})), "index 3 (number 1 of 2) is not in [0, 3)"},
        {i64(vector({-1, 0})), "index -1 (number 0 of 2) is not in [0, 3)"}}) {
    const Output at = constant(graph, indices);
    CHECK_THROWS_WITH_AS(evaluate(gather(x, at)), doctest::Contains(text), Error);
    const Output dy = constant(graph, f32(zeros({2, 2})));
    CHECK_THROWS_WITH_AS(evaluate(gather_gradient(dy, at, x)), doctest::Contains(text), Error);
    CHECK_THROWS_WITH_AS(evaluate(one_hot(at, 3)), doctest::Contains(text), Error);
  }
}

TEST_CASE("gather_nd takes the number of coordinates from indices whose last size is known") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {-1, -1});
  CHECK(gather_nd(x, placeholder(graph, DType::i32, {-1, 1})).shape() == Shape{-1, -1});
  CHECK(gather_nd(x, placeholder(graph, DType::i32, {-1, 2})).shape() == Shape{-1});
  CHECK_THROWS_WITH_AS(gather_nd(x, placeholder(graph, DType::i32, {-1, -1})),
                       doctest::Contains("the last size of indices [-1, -1] is not known; say how "
                                         "many coordinates there are"),
                       Error);
}

}  // namespace troupe

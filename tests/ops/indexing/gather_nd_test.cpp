// GatherNd and ScatterNd.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

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

OpCases cases() {
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
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("GatherNd copies slices, and ScatterNd adds them to zeros") { check(cases()); }

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

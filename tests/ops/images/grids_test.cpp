// eye, meshgrid and sequence_mask, which are made of other ops. Expected values are NumPy's.
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCase identity_of(std::string name, int64_t rows, int64_t columns, Tensor expected) {
  return Case("BandPart", std::move(name), {}, {expected})
      .made_by([=](Graph& graph, const std::vector<Output>&) {
        return std::vector{eye(graph, rows, columns, expected.dtype())};
      });
}

OpCase grid(std::string name, std::vector<Tensor> axes, Indexing indexing,
            std::vector<Tensor> expected) {
  return Case("BroadcastTo", std::move(name), std::move(axes), std::move(expected))
      .made_by([=](Graph&, const std::vector<Output>& x) { return meshgrid(x, indexing); });
}

OpCase mask(std::string name, Tensor lengths, int64_t size, Tensor expected) {
  return Case("Greater", std::move(name), {lengths}, {expected})
      .as_typed()
      .made_by([=](Graph&, const std::vector<Output>& x) {
        return std::vector{sequence_mask(x[0], size, expected.dtype())};
      });
}

const Table table("eye, meshgrid and sequence_mask are NumPy's and TensorFlow's", [] {
  const Tensor a = vector({1, 2, 3}), b = vector({10, 20});
  return OpCases{
      .values = {identity_of("square", 2, -1, f32(matrix({{1, 0}, {0, 1}}))),
                 identity_of("wide", 2, 3, matrix({{1, 0, 0}, {0, 1, 0}})),
                 identity_of("tall", 3, 2, i32(matrix({{1, 0}, {0, 1}, {0, 0}}))),
                 identity_of("bool", 1, 1, booleans(matrix({{1}}))),
                 identity_of("empty", 0, 2, zeros({0, 2})),
                 grid("xy", {a, b}, Indexing::xy,
                      {matrix({{1, 2, 3}, {1, 2, 3}}), matrix({{10, 10, 10}, {20, 20, 20}})}),
                 grid("ij", {a, b}, Indexing::ij,
                      {matrix({{1, 1}, {2, 2}, {3, 3}}), matrix({{10, 20}, {10, 20}, {10, 20}})}),
                 grid("three axes", {vector({1, 2}), vector({3}), vector({4, 5, 6})}, Indexing::xy,
                      {values({1, 2, 3}, {1, 1, 1, 2, 2, 2}), values({1, 2, 3}, {3, 3, 3, 3, 3, 3}),
                       values({1, 2, 3}, {4, 5, 6, 4, 5, 6})}),
                 grid("one axis", {vector({1, 0})}, Indexing::xy, {vector({1, 0})}),
                 grid("an empty axis", {vector({1, 0}), zeros({0})}, Indexing::ij,
                      {zeros({2, 0}), zeros({2, 0})}),
                 grid("two dtypes", {vector({1, 2}), i32(vector({3, 4}))}, Indexing::ij,
                      {matrix({{1, 1}, {2, 2}}), i32(matrix({{3, 4}, {3, 4}}))}),
                 mask("up to the greatest", i32(vector({1, 3, 0})), -1,
                      booleans(matrix({{1, 0, 0}, {1, 1, 1}, {0, 0, 0}}))),
                 mask("a given size", i64(vector({1, 3})), 2, booleans(matrix({{1, 0}, {1, 1}}))),
                 mask("a matrix of lengths, f32", i32(matrix({{1}, {2}})), 2,
                      f32(values({2, 1, 2}, {1, 0, 1, 1}))),
                 mask("size one", i32(scalar(1)), -1, booleans(vector({1}))),
                 mask("negative lengths", i32(vector({-2, -1})), -1, booleans(zeros({2, 0}))),
                 mask("no lengths", zeros({0}, DType::i64), -1, booleans(zeros({0, 0}))),
                 mask("size 0", i32(vector({1})), 0, booleans(zeros({1, 0})))},
  };
});

}  // namespace

TEST_CASE("eye, meshgrid and sequence_mask refuse what has no meaning") {
  Graph graph;
  const Origin at{"train.cpp", 42};
  CHECK_THROWS_WITH_AS(eye(graph, -1, 2, DType::f32, at),
                       "eye made at train.cpp:42: wants sizes of at least 0, got -1 and 2", Error);
  CHECK_THROWS_WITH_AS(meshgrid({}, Indexing::xy, at),
                       "meshgrid made at train.cpp:42: wants 1 to 8 vectors, got 0", Error);
  CHECK_THROWS_WITH_AS(meshgrid({constant(graph, zeros({2, 2}))}, Indexing::xy, at),
                       "meshgrid made at train.cpp:42: wants vectors; number 0 is [2, 2]", Error);
  CHECK_THROWS_WITH_AS(sequence_mask(constant(graph, zeros({2})), -1, DType::boolean, at),
                       doctest::Contains("wants lengths of i32 or i64, got f64; cast them"), Error);
  CHECK_THROWS_WITH_AS(sequence_mask(constant(graph, i32(zeros({2}))), -2, DType::boolean, at),
                       doctest::Contains("wants a size of at least 0, or -1"), Error);
}

}  // namespace troupe

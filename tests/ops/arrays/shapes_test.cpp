// Ops that change the shape alone or repeat and reorder along dimensions: Reshape, ReshapeLike,
// Squeeze, ExpandDims, BroadcastTo, BroadcastLike and Transpose.
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

const Table reshape_table("Reshape keeps the elements", [] {
  return table_of(
      "Reshape",
      {
          Case("a matrix", {matrix({{1, 2, 3}, {4, 5, 6}})}, {matrix({{1, 2}, {3, 4}, {5, 6}})},
               {{"shape", Shape{3, 2}}}),
          Case("to a vector", {matrix({{1, 2}, {3, 4}})}, {vector({1, 2, 3, 4})},
               {{"shape", Shape{-1}}}),
          Case("one size left open", {iota({2, 3, 2})}, {iota({3, 4})}, {{"shape", Shape{3, -1}}}),
          Case("a scalar", {vector({1})}, {scalar(1)}, {{"shape", Shape{}}}),
          Case("empty", {zeros({0, 3})}, {zeros({3, 0})}, {{"shape", Shape{3, 0}}}),
          Case("empty with one size left open", {zeros({0, 3})}, {zeros({0, 3})},
               {{"shape", Shape{-1, 3}}}),
      },
      {
          Refused({zeros({4})}, "the 4 elements of [4] do not fit into [3, 2]",
                  {{"shape", Shape{3, 2}}}),
          Refused({zeros({2, 3})}, "the 6 elements of [2, 3] do not fit into [4]",
                  {{"shape", Shape{4}}}),
          Refused({zeros({2, 3})}, "the 6 elements of [2, 3] do not fit into [4, -1]",
                  {{"shape", Shape{4, -1}}}),
          Refused({zeros({2, 3})}, "only one size may be -1, got [-1, -1]",
                  {{"shape", Shape{-1, -1}}}),
          Refused({zeros({0})}, "do not fit into [0, -1]", {{"shape", Shape{0, -1}}}),
      });
});

const Table like_table("ReshapeLike takes the shape of another value", [] {
  return table_of(
      "ReshapeLike",
      {
          Case("a matrix", {matrix({{1, 2, 3}, {4, 5, 6}}), zeros({3, 2})},
               {matrix({{1, 2}, {3, 4}, {5, 6}})}),
          Case("size one", {vector({1}), scalar(5)}, {scalar(1)}),
          Case("empty", {zeros({0, 3}), zeros({0})}, {zeros({0})}),
      },
      {
          Refused({zeros({2, 3}), zeros({4})}, "the 6 elements of [2, 3] do not fit into [4]"),
          Refused({zeros({2}), i32(zeros({2}))}, "inputs must have one dtype"),
      });
});

OpCase squeezed(std::string name, Tensor x, Ints axes, Tensor expected) {
  return Case("Squeeze", std::move(name), {x}, {expected}, {{"axes", axes}});
}

OpCase expanded(std::string name, Tensor x, int64_t axis, Tensor expected) {
  return Case("ExpandDims", std::move(name), {x}, {expected}, {{"axis", axis}});
}

const Table squeeze_table("Squeeze leaves dimensions out, and ExpandDims puts one in", [] {
  return table_of(
      "Squeeze",
      {squeezed("the first", matrix({{0, 1}}), {0}, vector({0, 1})),
       squeezed("from the end", values({2, 1, 1}, {1, 0}), {-1}, matrix({{1}, {0}})),
       squeezed("several, in any order", values({1, 2, 1, 1}, {1, 0}), {3, 0}, matrix({{1}, {0}})),
       squeezed("size one", values({1, 1}, {1}), {0, 1}, scalar(1)),
       squeezed("empty", zeros({0, 1}), {1}, zeros({0})),
       expanded("in front", vector({0, 1}), 0, matrix({{0, 1}})),
       expanded("at the end", vector({0, 1}), 1, matrix({{0}, {1}})),
       expanded("from the end", matrix({{0, 1}, {1, 0}}), -2, values({2, 1, 2}, {0, 1, 1, 0})),
       expanded("a scalar", scalar(1), -1, vector({1})),
       expanded("empty", zeros({0, 2}), 1, zeros({0, 1, 2}))},
      {Refused({zeros({2, 3})}, "cannot leave out axis 1 of [2, 3], which has size 3",
               {{"axes", Ints{1}}}),
       Refused({zeros({2})}, "axis 1 is not there: with 1 dimensions, axes go from -1 to 0",
               {{"axes", Ints{1}}}),
       Refused({zeros({1})}, "names axis -1 twice", {{"axes", Ints{0, -1}}}),
       Refused("ExpandDims", {zeros({2})},
               "axis 2 is not there: with 2 dimensions, axes go from -2 to 1",
               {{"axis", int64_t{2}}}),
       Refused("ExpandDims", {zeros({1, 1, 1, 1, 1, 1, 1, 1})}, "would have more than 8 dimensions",
               {{"axis", int64_t{0}}})});
});

const Table broadcast_to_table(
    "values are repeated up to a shape, or up to that of another value", [] {
      return table_of(
          "BroadcastTo",
          {
              Case("a row", {vector({1, 0})}, {matrix({{1, 0}, {1, 0}, {1, 0}})},
                   {{"shape", Shape{3, 2}}}),
              Case("a column", {matrix({{1}, {0}})}, {matrix({{1, 1, 1}, {0, 0, 0}})},
                   {{"shape", Shape{2, 3}}}),
              Case("a scalar", {scalar(1)}, {full({2, 2}, 1)}, {{"shape", Shape{2, 2}}}),
              Case("outside and inside", {iota({2, 1})},
                   {values({2, 2, 2}, {0, 0, 1, 1, 0, 0, 1, 1})}, {{"shape", Shape{2, 2, 2}}}),
              Case("the shape it has", {vector({1, 0})}, {vector({1, 0})}, {{"shape", Shape{2}}}),
              Case("size one", {vector({1})}, {vector({1})}, {{"shape", Shape{1}}}),
              Case("no times", {vector({1})}, {zeros({0})}, {{"shape", Shape{0}}}),
              Case("BroadcastLike", "a row", {vector({1, 0}), zeros({3, 2})},
                   {matrix({{1, 0}, {1, 0}, {1, 0}})}),
              Case("BroadcastLike", "a scalar", {scalar(1), zeros({2, 2})}, {full({2, 2}, 1)}),
              Case("BroadcastLike", "size one", {vector({1}), zeros({1})}, {vector({1})}),
              Case("BroadcastLike", "no times", {vector({1}), zeros({0})}, {zeros({0})}),
          },
          {
              Refused({zeros({2})}, "[2] cannot be repeated up to [3]", {{"shape", Shape{3}}}),
              Refused({zeros({2, 1})}, "cannot be repeated up to [2]", {{"shape", Shape{2}}}),
              Refused({zeros({1})}, "wants a shape without -1", {{"shape", Shape{-1}}}),
              Refused("BroadcastLike", {zeros({2}), zeros({3})},
                      "[2] cannot be repeated up to [3]"),
              Refused("BroadcastLike", {zeros({2}), zeros({1})},
                      "[2] cannot be repeated up to [1]"),
          });
    });

const Table transpose_table("Transpose reorders dimensions", [] {
  return table_of(
      "Transpose",
      {
          Case("a matrix", {matrix({{1, 2, 3}, {4, 5, 6}})}, {matrix({{1, 4}, {2, 5}, {3, 6}})}),
          Case("a vector", {vector({1, 0})}, {vector({1, 0})}),
          Case("a scalar", {scalar(1)}, {scalar(1)}),
          Case("the order it has", {matrix({{1, 2}, {3, 4}})}, {matrix({{1, 2}, {3, 4}})},
               {{"permutation", Ints{0, 1}}}),
          Case("negative axes", {matrix({{1, 2}, {3, 4}})}, {matrix({{1, 3}, {2, 4}})},
               {{"permutation", Ints{-1, -2}}}),
          Case("three dimensions reversed", {iota({2, 1, 3})},
               {values({3, 1, 2}, {0, 3, 1, 4, 2, 5})}),
          Case("the last two of three", {iota({2, 2, 3})},
               {values({2, 3, 2}, {0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11})},
               {{"permutation", Ints{0, 2, 1}}}),
          Case("the first two of three", {iota({2, 2, 2})},
               {values({2, 2, 2}, {0, 1, 4, 5, 2, 3, 6, 7})}, {{"permutation", Ints{1, 0, 2}}}),
          Case("turned round", {iota({2, 2, 2})}, {values({2, 2, 2}, {0, 2, 4, 6, 1, 3, 5, 7})},
               {{"permutation", Ints{2, 0, 1}}}),
          Case("empty", {zeros({0, 3})}, {zeros({3, 0})}),
      },
      {
          Refused({zeros({2, 3})}, "the permutation has 1 axes, the input 2 dimensions",
                  {{"permutation", Ints{0}}}),
          Refused({zeros({2, 3})}, "names axis 0 twice", {{"permutation", Ints{0, 0}}}),
          Refused({zeros({2, 3})}, "axis 2 is not there: with 2 dimensions, axes go from -2 to 1",
                  {{"permutation", Ints{0, 2}}}),
      });
});

}  // namespace

TEST_CASE("reshape copies nothing") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, Shape{2, 3});
  const Tensor value = f32(iota({2, 3}));
  CHECK(evaluate(reshape(x, {3, 2}), {{x, value}}).raw() == value.raw());
}

TEST_CASE("without axes, squeeze leaves out all of size 1, which must be known") {
  Graph graph;
  const Output x = constant(graph, values({1, 2, 1}, {3, 4}));
  CHECK(same_bits(evaluate(squeeze(x)), vector({3, 4})));
  const Output dx = gradients({squeeze(x)}, {x})[0];
  CHECK(dx.shape() == Shape{1, 2, 1});
  const Output none = constant(graph, zeros({2, 3}));
  CHECK(squeeze(none).shape() == Shape{2, 3});
  const Output open = placeholder(graph, DType::f32, {1, -1});
  CHECK_THROWS_WITH_AS(squeeze(open),
                       doctest::Contains("cannot see which sizes of [1, -1] are 1; name the axes"),
                       Error);
}

TEST_CASE("squeeze and expand_dims share the memory of their input") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, Shape{-1, 1});
  const Tensor value = f32(zeros({2, 1}));
  CHECK(evaluate(expand_dims(squeeze(x, {1}), 0), {{x, value}}).raw() == value.raw());
}

TEST_CASE("matrices larger than a block are transposed in full") {
  for (const DType dtype : {DType::u8, DType::f32, DType::f64}) {
    Graph graph;
    const Output x = placeholder(graph, dtype, Shape{3, 70, 45});
    Tensor value = iota({3, 70, 45});
    if (dtype == DType::u8) value = full({3, 70, 45}, 7);
    const Tensor y =
        converted(evaluate(transpose(x, {0, 2, 1}), {{x, converted(value, dtype)}}), DType::f64);
    REQUIRE(y.shape() == Shape{3, 45, 70});
    for (int64_t b = 0; b < 3; ++b)
      for (int64_t i = 0; i < 70; ++i)
        for (int64_t j = 0; j < 45; ++j)
          REQUIRE(y.data<double>()[(b * 45 + j) * 70 + i] ==
                  value.data<double>()[(b * 70 + i) * 45 + j]);
  }
}

}  // namespace troupe

// Squeeze and ExpandDims.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCase squeezed(std::string name, Tensor x, Ints axes, Tensor expected) {
  return Case("Squeeze", std::move(name), {x}, {expected}, {{"axes", axes}});
}

OpCase expanded(std::string name, Tensor x, int64_t axis, Tensor expected) {
  return Case("ExpandDims", std::move(name), {x}, {expected}, {{"axis", axis}});
}

OpCases cases() {
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
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Squeeze leaves dimensions out, and ExpandDims puts one in") { check(cases()); }

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

}  // namespace troupe

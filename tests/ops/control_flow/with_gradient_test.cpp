// WithGradient as an op; tests/gradients/gradient_test.cpp tests its use by gradients().
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return table_of("WithGradient",
                  {
                      Case("a matrix", {matrix({{1, 0}, {1, 1}})}, {matrix({{1, 0}, {1, 1}})}),
                      Case("size one", {vector({1})}, {vector({1})}),
                      Case("empty", {zeros({0, 2})}, {zeros({0, 2})}),
                  },
                  {
                      Refused({zeros({1}), zeros({1})}, "wants 1 input (x), got 2"),
                  });
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("WithGradient passes its input on") { check(cases()); }

TEST_CASE("with_gradient shares the memory of its result") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, Shape{2});
  const auto backward = [](const std::vector<Output>&, Output, Output dy) {
    return std::vector<Output>{dy};
  };
  const Tensor value = f32(vector({1, 2}));
  CHECK(evaluate(with_gradient({x}, x, backward), {{x, value}}).raw() == value.raw());
}

TEST_CASE("with_gradient refuses inputs of another graph and an empty backward function") {
  Graph graph, other;
  const Output x = placeholder(graph, DType::f32, Shape{2});
  const Output y = placeholder(other, DType::f32, Shape{2});
  const auto backward = [](const std::vector<Output>&, Output, Output dy) {
    return std::vector<Output>{dy};
  };
  CHECK_THROWS_WITH_AS(with_gradient({y}, x, backward, {"train.cpp", 42}),
                       "WithGradient made at train.cpp:42: input 0 is undefined or of another "
                       "graph than the result; name what the result was made of",
                       Error);
  CHECK_THROWS_WITH_AS(with_gradient({Output{&graph, 7, 0}}, x, backward),
                       doctest::Contains("the graph has no node number 7"), Error);
  CHECK_THROWS_WITH_AS(with_gradient({x}, x, nullptr, {"train.cpp", 42}),
                       "WithGradient made at train.cpp:42: the backward function is empty; it "
                       "makes the inputs' gradients of y's",
                       Error);
  CHECK(graph.nodes().size() == 1);  // no node is left behind
}

}  // namespace troupe

// Nonzero and BooleanMask.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCase indices(std::string name, Tensor x, Tensor expected) {
  return Case("Nonzero", std::move(name), {x}, {i64(expected)});
}

OpCase masked(std::string name, Tensor x, Tensor mask, Tensor expected) {
  return Case("BooleanMask", std::move(name), {x, booleans(mask)}, {expected});
}

OpCases cases() {
  const Tensor x = iota({3, 2});
  return table_of(
      "BooleanMask",
      {indices("a vector", vector({0, 1, 0, 1}), matrix({{1}, {3}})),
       indices("a matrix", matrix({{1, 0, 2}, {0, 0, 3}}), matrix({{0, 0}, {0, 2}, {1, 2}})),
       indices("three dimensions", values({2, 1, 2}, {0, 1, 1, 0}), matrix({{0, 0, 1}, {1, 0, 0}})),
       indices("NaN, infinity and the zeros", vector({NAN, -INFINITY, 0.0, -0.0, 1e-40}),
               matrix({{0}, {1}, {4}})),
       indices("none", zeros({2, 2}), zeros({0, 2})), indices("a scalar", scalar(1), zeros({1, 0})),
       indices("a scalar that is 0", scalar(0), zeros({0, 0})),
       indices("size one", vector({5}), matrix({{0}})),
       indices("empty", zeros({0, 3}), zeros({0, 2})),
       masked("rows", x, vector({1, 0, 1}), matrix({{0, 1}, {4, 5}})),
       masked("elements", x, matrix({{1, 0}, {0, 1}, {1, 1}}), vector({0, 3, 4, 5})),
       masked("bits", vector({1, 0, 1}), vector({0, 1, 1}), vector({0, 1})),
       masked("all", x, vector({1, 1, 1}), x), masked("none", x, vector({0, 0, 0}), zeros({0, 2})),
       masked("size one", vector({1}), vector({1}), vector({1})),
       masked("empty rows", zeros({2, 0}), vector({1, 0}), zeros({1, 0})),
       masked("empty", zeros({0, 2}), zeros({0}), zeros({0, 2}))},
      {Refused("Nonzero", {zeros({1}), zeros({1})}, "wants 1 input (x), got 2"),
       Refused({x, booleans(zeros({2}))},
               "wants a mask of one or more of the first dimensions of [3, 2], got [2]"),
       Refused({x, booleans(scalar(1))}, "wants a mask of one or more of the first dimensions of"),
       Refused({x, zeros({3})}, "wants a bool mask, got f64; compare it with something")});
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Nonzero finds indices, and BooleanMask chooses slices") { check(cases()); }

TEST_CASE("an op whose shapes depend on values has no kernel on an accelerator") {
  Graph graph;
  const Output x = constant(graph, zeros({2}));
  for (const auto& device : accelerators()) {
    CAPTURE(device->name());
    CHECK(device->kernel_for(graph.node(nonzero(x).node)) == nullptr);
  }
}

}  // namespace troupe

// OneHot, InvertPermutation, Nonzero and BooleanMask.
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs attrs(int64_t depth, DType dtype = DType::f32) {
  return {{"depth", depth}, {"dtype", dtype}};
}

const Table one_hot_table("OneHot sets one of each row", [] {
  const Tensor rows = matrix({{0, 0, 1}, {1, 0, 0}});
  OpCases all = table_of(
      "OneHot",
      {Case("a scalar", {i32(scalar(1))}, {f32(vector({0, 1}))}, attrs(2)),
       Case("a matrix", {i64(matrix({{0, 1}}))}, {f32(values({1, 2, 2}, {1, 0, 0, 1}))}, attrs(2)),
       Case("no indices", {zeros({0}, DType::i32)}, {zeros({0, 3}, DType::f32)}, attrs(3)),
       Case("depth one", {i32(vector({0}))}, {f32(matrix({{1}}))}, attrs(1))},
      {Refused({vector({1})}, "wants indices of i32 or i64, got f64; cast them", attrs(2)),
       Refused({i32(vector({1}))}, "wants a depth of at least 0, got -1", attrs(-1)),
       Refused({zeros({1, 1, 1, 1, 1, 1, 1, 1}, DType::i32)}, "would have more than 8 dimensions",
               attrs(2))});
  for (DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64, DType::u8, DType::boolean})
    all.values.push_back(Case("OneHot", to_string(dtype), {i32(vector({2, 0}))},
                              {converted(rows, dtype)}, attrs(3, dtype))
                             .as_typed());
  return all;
});

const Table invert_permutation_table("InvertPermutation says where each index is", [] {
  const auto of = [](std::string name, Tensor x, Tensor expected) {
    return Case("InvertPermutation", std::move(name), {i32(x)}, {i32(expected)});
  };
  const auto refused = [](Tensor x, std::string message, bool when_run) {
    return OpError{.op = "InvertPermutation",
                   .inputs = {x},
                   .message = std::move(message),
                   .when_run = when_run};
  };
  return OpCases{
      .values = {of("three", vector({2, 0, 1}), vector({1, 2, 0})),
                 of("in order", vector({0, 1, 2, 3}), vector({0, 1, 2, 3})),
                 of("size one", vector({0}), vector({0})), of("empty", zeros({0}), zeros({0}))},
      .errors = {refused(i32(zeros({1, 1})), "wants a vector, got [", false),
                 refused(zeros({2}), "wants indices of i32 or i64, got f64", false),
                 refused(i32(vector({0, 2})), "index 2 (number 1 of 2) is not in [0, 2)", true),
                 refused(i64(vector({-1})), "index -1 (number 0 of 1) is not in [0, 1)", true),
                 refused(i32(vector({0, 1, 1})),
                         "index 1 is there twice, as numbers 1 and 2; a permutation has each "
                         "once",
                         true)}};
});

OpCase indices(std::string name, Tensor x, Tensor expected) {
  return Case("Nonzero", std::move(name), {x}, {i64(expected)});
}

OpCase masked(std::string name, Tensor x, Tensor mask, Tensor expected) {
  return Case("BooleanMask", std::move(name), {x, booleans(mask)}, {expected});
}

const Table nonzero_table("Nonzero finds indices, and BooleanMask chooses slices", [] {
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
});

}  // namespace

TEST_CASE("an op whose shapes depend on values has no kernel on an accelerator") {
  Graph graph;
  const Output x = constant(graph, zeros({2}));
  for (const auto& device : accelerators()) {
    CAPTURE(device->name());
    CHECK(device->kernel_for(graph.node(nonzero(x).node)) == nullptr);
  }
}

}  // namespace troupe

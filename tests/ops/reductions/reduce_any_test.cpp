// ReduceAny and ReduceAll.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

// A case whose values 0 and 1 are converted to bool.
OpCase of(const std::string& op, std::string name, const Tensor& x, const Attrs& attrs,
          const Tensor& expected) {
  return Case(op, std::move(name), {booleans(x)}, {booleans(expected)}, attrs);
}

std::vector<OpError> errors(const std::string& op) {
  return {Refused(op, {booleans(zeros({2, 3}))},
                  "axis 2 is not there: with 2 dimensions, axes go from -2 to 1", over({2})),
          Refused(op, {booleans(zeros({2, 3}))}, "names axis -1 twice", over({1, -1})),
          Refused(op, {zeros({2})}, "has no kernel for f64; cast to one of bool", over({}))};
}

OpCases any_cases() {
  const auto any = [](std::string name, const Tensor& x, const Attrs& attrs,
                      const Tensor& expected) {
    return of("ReduceAny", std::move(name), x, attrs, expected);
  };
  const Tensor x = matrix({{0, 1, 0}, {0, 0, 0}});
  return {.values = {any("everything", x, over({}), scalar(1)),
                     any("everything, all false", zeros({2, 3}), over({}), scalar(0)),
                     any("rows", x, over({1}), vector({1, 0})),
                     any("columns", x, over({0}), vector({0, 1, 0})),
                     any("keeping dimensions", x, over({-1}, true), matrix({{1}, {0}})),
                     any("first and last", values({2, 2, 2}, {0, 0, 0, 0, 0, 0, 0, 1}),
                         over({0, 2}), vector({0, 1})),
                     any("between", values({2, 2, 2}, {0, 0, 1, 0, 0, 0, 0, 1}), over({1}),
                         matrix({{1, 0}, {0, 1}})),
                     any("size one", vector({1}), over({0}), scalar(1)),
                     any("a scalar", scalar(0), over({}), scalar(0)),
                     any("none", zeros({2, 0}), over({1}), vector({0, 0})),
                     any("no rows", zeros({0, 2}), over({1}), zeros({0}))},
          .errors = errors("ReduceAny")};
}
const ListedCases listed_any(any_cases);

OpCases all_cases() {
  const auto all = [](std::string name, const Tensor& x, const Attrs& attrs,
                      const Tensor& expected) {
    return of("ReduceAll", std::move(name), x, attrs, expected);
  };
  const Tensor x = matrix({{1, 0, 1}, {1, 1, 1}});
  return {.values = {all("everything", x, over({}), scalar(0)),
                     all("everything, all true", full({2, 3}, 1), over({}), scalar(1)),
                     all("rows", x, over({1}), vector({0, 1})),
                     all("columns", x, over({0}), vector({1, 0, 1})),
                     all("keeping dimensions", x, over({-1}, true), matrix({{0}, {1}})),
                     all("first and last", values({2, 2, 2}, {1, 1, 1, 1, 1, 1, 1, 0}),
                         over({0, 2}), vector({1, 0})),
                     all("between", values({2, 2, 2}, {1, 1, 0, 1, 1, 1, 1, 0}), over({1}),
                         matrix({{0, 1}, {1, 0}})),
                     all("size one", vector({0}), over({0}), scalar(0)),
                     all("a scalar", scalar(1), over({}), scalar(1)),
                     all("none", zeros({2, 0}), over({1}), vector({1, 1})),
                     all("no rows", zeros({0, 2}), over({1}), zeros({0}))},
          .errors = errors("ReduceAll")};
}
const ListedCases listed_all(all_cases);

}  // namespace

TEST_CASE("ReduceAny is true if one is") { check(any_cases()); }
TEST_CASE("ReduceAll is false if one is") { check(all_cases()); }

TEST_CASE("one among many is seen wherever it stands") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, Shape{-1});
  const Output one = equal(x, fill(graph, {}, 700, DType::f64));
  const Output any = reduce_any(one), all = reduce_all(logical_xor(one, equal(x, x)));
  for (double first : {0, -1, 200, 690, 701}) {
    CAPTURE(first);
    const bool there = first <= 700;
    CHECK(evaluate(any, {{x, iota({1300}, first)}}).item<bool>() == there);
    CHECK(evaluate(all, {{x, iota({1300}, first)}}).item<bool>() == !there);
  }
}

}  // namespace troupe

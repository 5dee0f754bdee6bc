// ReduceAny and ReduceAll.
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

// The table of ReduceAny, or with every truth value turned that of ReduceAll.
OpCases cases(const std::string& op, bool turned) {
  const auto truth = [=](const Tensor& x) {
    std::vector<double> all;
    for (const double value : x.values<double>()) all.push_back(turned ? 1 - value : value);
    return booleans(from_doubles(all, DType::f64, x.shape()));
  };
  const auto of = [=](const char* name, const Tensor& x, const Attrs& attrs,
                      const Tensor& expected) {
    return Case(name, {truth(x)}, {truth(expected)}, attrs);
  };
  const Tensor x = matrix({{0, 1, 0}, {0, 0, 0}});
  return table_of(
      op,
      {of("everything", x, over({}), scalar(1)),
       of("everything, all alike", zeros({2, 3}), over({}), scalar(0)),
       of("rows", x, over({1}), vector({1, 0})), of("columns", x, over({0}), vector({0, 1, 0})),
       of("keeping dimensions", x, over({-1}, true), matrix({{1}, {0}})),
       of("first and last", values({2, 2, 2}, {0, 0, 0, 0, 0, 0, 0, 1}), over({0, 2}),
          vector({0, 1})),
       of("between", values({2, 2, 2}, {0, 0, 1, 0, 0, 0, 0, 1}), over({1}),
          matrix({{1, 0}, {0, 1}})),
       of("size one", vector({1}), over({0}), scalar(1)),
       of("a scalar", scalar(0), over({}), scalar(0)),
       of("none", zeros({2, 0}), over({1}), vector({0, 0})),
       of("no rows", zeros({0, 2}), over({1}), zeros({0}))},
      {Refused({booleans(zeros({2, 3}))},
               "axis 2 is not there: with 2 dimensions, axes go from -2 to 1", over({2})),
       Refused({booleans(zeros({2, 3}))}, "names axis -1 twice", over({1, -1})),
       Refused({zeros({2})}, "has no kernel for f64; cast to one of bool", over({}))});
}
const Table any_table("ReduceAny is true if one is", [] { return cases("ReduceAny", false); });
const Table all_table("ReduceAll is false if one is", [] { return cases("ReduceAll", true); });

}  // namespace

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

// Clip.
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCase of(std::string name, Tensor x, double low, double high, Tensor expected) {
  return Case("Clip", std::move(name), {x}, {expected}, {{"low", low}, {"high", high}});
}

OpError refused(Tensor x, double low, double high, std::string message) {
  return Refused("Clip", {x}, std::move(message), {{"low", low}, {"high", high}});
}

const Table table("Clip moves numbers to the nearest bound", [] {
  OpCases all = table_of(
      "Clip",
      {
          of("within both", matrix({{-5, 0}, {2, 9}}), -1, 3, matrix({{-1, 0}, {2, 3}})),
          of("of u8, too", vector({0, 7, 255}), 5, 200, vector({5, 7, 200})),
          of("broken bounds", vector({0.2, 0.6, -3, 0.4}), 0.25, 0.5,
             vector({0.25, 0.5, 0.25, 0.4})),
          of("size one", vector({4}), 0, 1, vector({1})),
          of("empty", zeros({3, 0}), 0, 1, zeros({3, 0})),
          of("no lower bound", vector({-2000000000, 5}), -INFINITY, 3, vector({-2000000000, 3})),
          of("no upper bound", vector({-5, 2000000000}), 3, INFINITY, vector({3, 2000000000})),
          of("one number", vector({-5, 2}), 1, 1, vector({1, 1})),
      },
      {refused(zeros({2}), 1, 0, "wants low <= high, got 1 and 0"),
       refused(zeros({2}), NAN, 0, "wants low <= high, got nan and 0"),
       refused(i32(zeros({2})), 0.5, 2, "the bound 0.5 is no i32 value"),
       refused(u8(zeros({2})), 0, 256, "the bound 256 is no u8 value"),
       refused(booleans(zeros({2})), 0, 1, "has no kernel for bool"),
       Refused({zeros({2}), zeros({2})}, "wants 1 input (x), got 2",
               {{"low", 0.0}, {"high", 1.0}})});
  OpCase odd =
      of("NaN and infinities", vector({NAN, INFINITY, -INFINITY}), -1, 1, vector({NAN, 1, -1}));
  odd.smooth = false;
  all.values.push_back(odd);
  return all;
});

}  // namespace

TEST_CASE("a bound that is reached passes the gradient on") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, Shape{4});
  const Output dx = gradients({clip(x, -1, 1)}, {x})[0];
  CHECK(!difference(evaluate(dx, {{x, vector({-1, 1, -1.5, 2})}}), vector({1, 1, 0, 0})));
}

}  // namespace troupe

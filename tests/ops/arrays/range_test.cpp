// ShapeOf, CommonRows, Range and LinSpace.
#include <limits>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

OpCase range_of(std::string name, double start, double limit, double delta, Tensor expected) {
  return Case("Range", std::move(name), {scalar(start), scalar(limit), scalar(delta)}, {expected});
}

OpCase line(std::string name, double start, double stop, int64_t count, Tensor expected) {
  return Case("LinSpace", std::move(name), {scalar(start), scalar(stop)}, {expected},
              {{"count", count}});
}

OpCase shape_case(std::string name, Tensor x, Tensor expected) {
  return Case("ShapeOf", std::move(name), {x}, {i64(expected)});
}

OpCase common(std::string name, std::vector<Tensor> shapes, int64_t expected) {
  for (Tensor& shape : shapes) shape = i64(shape);
  return Case("CommonRows", std::move(name), std::move(shapes), {Tensor::scalar(expected)},
              {{"function", std::string("scan")}});
}

OpError refused_rows(std::vector<Tensor> shapes, std::string message, bool when_run) {
  return {.op = "CommonRows",
          .inputs = std::move(shapes),
          .attrs = {{"function", std::string("scan")}},
          .message = std::move(message),
          .when_run = when_run};
}

OpError refused_range(double start, double limit, double delta) {
  return Refused("Range", {scalar(start), scalar(limit), scalar(delta)},
                 "wants finite numbers, a delta other than 0 and at most 2^40 elements")
      .in_step();
}

const Table table(
    "Range counts, LinSpace divides, ShapeOf tells sizes, and CommonRows compares them", [] {
      const auto number = [](int64_t value) { return Tensor::scalar(value); };
      const std::string differ =
          "scan wants xs with one number of rows, got 3, 3, 4; cut or pad them";
      OpCases all = table_of(
          "Range",
          {common("a matrix and a vector", {vector({3, 2}), vector({3})}, 3),
           common("one", {vector({7, 0})}, 7),
           common("no rows", {vector({0}), vector({0, 5})}, 0),
           range_of("upwards", 0, 3, 1, vector({0, 1, 2})),
           range_of("downwards", 5, 0, -2, vector({5, 3, 1})),
           range_of("fractions", 1, 2, 0.25, vector({1, 1.25, 1.5, 1.75})),
           range_of("tenths", 0, 1, 0.1, vector({0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9})),
           range_of("size one", 1, 1.5, 1, vector({1})),
           range_of("to itself", 3, 3, 1, zeros({0})),
           range_of("away from the limit", 3, 0, 1, zeros({0})),
           Case("all of i64", {number(kMin), number(kMax), number(kMax)},
                {Tensor::of<int64_t>({kMin, -1, kMax - 1}, {3})})
               .as_typed(),
           Case("all of i64, downwards", {number(kMax), number(kMin), number(kMin)},
                {Tensor::of<int64_t>({kMax, -1}, {2})})
               .as_typed(),
           line("quarters", 0, 1, 5, vector({0, 0.25, 0.5, 0.75, 1})),
           line("downwards", 1, -2, 4, vector({1, 0, -1, -2})),
           line("both ends", 3, 9, 2, vector({3, 9})),
           line("size one", 3, 9, 1, vector({3})),
           line("nothing", 3, 9, 0, zeros({0})),
           line("a single value", 2, 2, 3, vector({2, 2, 2})),
           line("large", -1e38, 3e38, 3, vector({-1e38, 1e38, 3e38})),
           shape_case("a matrix", iota({2, 3}), vector({2, 3})),
           shape_case("a scalar", scalar(1), zeros({0})),
           shape_case("an empty one", zeros({0, 2}), vector({0, 2})),
           shape_case("size one", vector({1}), vector({1}))},
          {refused_rows({i64(vector({3})), i64(vector({3})), i64(vector({4, 1}))}, differ, true),
           refused_rows({i64(vector({3})), i64(scalar(3))},
                        "wants shapes of tensors with rows, i64[1 or more], got "
                        "i64[]",
                        false),
           refused_rows({i64(zeros({0}))}, "got i64[0]", false),
           refused_rows({i32(vector({3}))}, "i64[1 or more], got i32[", false),
           refused_range(0, 3, 0), refused_range(0, NAN, 1), refused_range(0, INFINITY, 1),
           refused_range(0, 1e300, 1),
           Refused({vector({0}), scalar(3), scalar(1)}, "wants three scalars, got ["),
           Refused({u8(scalar(0)), u8(scalar(3)), u8(scalar(1))},
                   "has no kernel for u8; cast to one of f32, f64, i32, i64"),
           Refused("LinSpace", {vector({0}), vector({1})}, "wants two scalars, got [",
                   {{"count", int64_t{5}}}),
           Refused("LinSpace", {scalar(0), scalar(1)}, "wants a count of at least 0, got -1",
                   {{"count", int64_t{-1}}}),
           Refused("LinSpace", {i32(scalar(0)), i32(scalar(1))},
                   "has no kernel for i32; cast to one of f32, f64", {{"count", int64_t{2}}}),
           Refused("ShapeOf", {zeros({1}), zeros({1})}, "wants 1 input (x), got 2")});
      all.values[all.values.size() - 5].gradient_tolerance = 1;  // the case "large"
      return all;
    });

}  // namespace

TEST_CASE("a range of numbers has a known size") {
  Graph graph;
  const Output y = range(graph, 1, 4);
  CHECK(y.shape() == Shape{3});
  CHECK(same_bits(evaluate(y), i32(vector({1, 2, 3}))));
  CHECK(same_bits(evaluate(range(graph, 0, 1, 0.5, DType::f64)), vector({0, 0.5})));
  CHECK(range(graph, 5, 0).shape() == Shape{0});
  CHECK_THROWS_WITH_AS(range(graph, 0, 1, 0.5), doctest::Contains("the value 0.5 is no i32 value"),
                       Error);
  CHECK_THROWS_WITH_AS(range(graph, 0, 1, 1, DType::u8), doctest::Contains("has no kernel for u8"),
                       Error);
  CHECK_THROWS_WITH_AS(evaluate(range(graph, 0, 1, 0)), doctest::Contains("a delta other than 0"),
                       Error);
}

TEST_CASE("elements of a range do not gather errors, and a linspace ends exactly") {
  Graph graph;
  const Tensor tenths = evaluate(range(graph, 0, 1000, 0.1, DType::f64));
  REQUIRE(tenths.size() == 10000);
  CHECK(tenths.values<double>()[9999] == 9999 * 0.1);
  const Output from = constant(graph, scalar(0.1)), to = constant(graph, scalar(0.7));
  const Tensor line = evaluate(linspace(from, to, 1000));
  CHECK(line.values<double>()[0] == 0.1);
  CHECK(line.values<double>()[999] == 0.7);
}

TEST_CASE("what depends on sizes that only the step knows can be made of shape_of and range") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {-1});
  const Output zero = constant(graph, i64(scalar(0))), one = constant(graph, i64(scalar(1)));
  const Output positions = range(zero, reshape(shape_of(x), {}), one);
  CHECK(same_bits(evaluate(positions, {{x, f32(zeros({3}))}}), i64(vector({0, 1, 2}))));
}

}  // namespace troupe

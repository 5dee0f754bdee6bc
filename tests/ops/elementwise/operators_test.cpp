// The operators + - * / % & | ^, == != < <= > >=, and numbers in them and in functions.
#include <set>
#include <type_traits>

#include "tests/support/op_cases.hpp"
#include "tests/support/refusal.hpp"

namespace troupe {
namespace {

// `if (a == b)` does not compile, and true and false are no numbers.
static_assert(!std::is_constructible_v<bool, Output>);
static_assert(std::is_same_v<decltype(Output() == Output()), Output>);
static_assert(std::is_same_v<decltype(1 < Output()), Output>);
static_assert(std::is_constructible_v<Operand, double> && std::is_constructible_v<Operand, int>);
static_assert(!std::is_constructible_v<Operand, bool>);

}  // namespace

TEST_CASE("comparisons of outputs make masks, as the functions do") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, Shape{3}),
               labels = placeholder(graph, DType::i64, Shape{3});
  const FedValues feeds = {{x, f32(vector({1, -2, 3}))}, {labels, i64(vector({5, 0, 7}))}};
  const auto mask = [&](Output of, std::initializer_list<double> wanted) {
    CHECK(of.dtype() == DType::boolean);
    CHECK(same_bits(evaluate(of, feeds), booleans(vector(wanted))));
  };
  mask(x == 3.0, {0, 0, 1});
  mask(x != 3.0, {1, 1, 0});
  mask(x < 1.0, {0, 1, 0});
  mask(x <= 1.0, {1, 1, 0});
  mask(x > zeros_like(x), {1, 0, 1});
  mask(x >= 1.0, {1, 0, 1});
  mask(0.0 < x, {1, 0, 1});
  mask(labels != 0, {1, 0, 1});
  const Output kept = x * cast(x > zeros_like(x), DType::f32);
  CHECK(same_bits(evaluate(kept, feeds), f32(vector({1, -0.0, 3}))));
}

TEST_CASE("outputs are compared by is(), and sorted as their nodes were made") {
  Graph graph;
  const Output a = placeholder(graph, DType::f32, {4}, "a");
  const std::vector<Output> parts = split(a, 2, 0);
  CHECK(a.is(graph.output("a")));
  CHECK_FALSE(parts[0].is(parts[1]));
  CHECK_FALSE(a.is(Output{}));
  CHECK(same_outputs(parts, split(a, 2, 0)) == false);
  CHECK(same_outputs(parts, {parts[0], parts[1]}));
  CHECK_FALSE(same_outputs(parts, {parts[0]}));
  const std::set<Output, OutputOrder> sorted = {parts[1], a, parts[0], a};
  CHECK(same_outputs({sorted.begin(), sorted.end()}, {a, parts[0], parts[1]}));
  CHECK(OutputOrder()({a}, parts));
  CHECK_FALSE(OutputOrder()(parts, {a}));
}

TEST_CASE("numbers in operators become constants of the other side's dtype") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, Shape{2});
  const FedValues feeds = {{x, f32(vector({1, 4}))}};
  CHECK(same_bits(evaluate(x + 1, feeds), f32(vector({2, 5}))));
  CHECK(same_bits(evaluate(1 - x, feeds), f32(vector({0, -3}))));
  CHECK(same_bits(evaluate(0.5 * x, feeds), f32(vector({0.5, 2}))));
  CHECK(same_bits(evaluate(8 / x, feeds), f32(vector({8, 2}))));
  CHECK(same_bits(evaluate(-x, feeds), f32(vector({-1, -4}))));
  CHECK(same_bits(evaluate(x * x + x, feeds), f32(vector({2, 20}))));
  const Output n = placeholder(graph, DType::i64, Shape{});
  CHECK(evaluate(n * 3, {{n, i64(scalar(5))}}).item<int64_t>() == 15);
}

TEST_CASE("an integer beside i64 is exact, or refused") {
  Graph graph;
  const Output n = placeholder(graph, DType::i64, Shape{});
  constexpr int64_t kMost = (int64_t{1} << 53) - 1;
  CHECK(evaluate(n - kMost, {{n, Tensor::scalar(kMost)}}).item<int64_t>() == 0);
  const std::string here = "operators_test.cpp:" + std::to_string(__LINE__ + 1);
  check_invalid([&] { equal(n, kMost + 2); }, "the number 9.007199254740992e+15 at ", here,
                "may be rounded");
  check_invalid([&] { bitwise_and(n, INT64_MIN); }, "may be rounded", "Tensor::scalar<int64_t>");
  const Output x = placeholder(graph, DType::f64, Shape{});
  CHECK(evaluate(x * 0x1p60, {{x, Tensor::scalar(2.0)}}).item<double>() == 0x1p61);
}

TEST_CASE("a function of two inputs takes a number beside an output") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, Shape{2}),
               n = placeholder(graph, DType::i64, Shape{2});
  const FedValues feeds = {{x, f32(vector({-1, 4}))}, {n, i64(vector({5, 200}))}};
  CHECK(same_bits(evaluate(less(n, 100), feeds), booleans(vector({1, 0}))));
  CHECK(same_bits(evaluate(greater(0.0, x), feeds), booleans(vector({1, 0}))));
  CHECK(same_bits(evaluate(maximum(x, 0.0), feeds), f32(vector({0, 4}))));
  CHECK(same_bits(evaluate(minimum(n, 7), feeds), i64(vector({5, 7}))));
  CHECK(same_bits(evaluate(pow(x, 2), feeds), f32(vector({1, 16}))));
  CHECK(same_bits(evaluate(pow(2, n % 4), feeds), i64(vector({2, 1}))));
  CHECK(same_bits(evaluate(heaviside(x, 0.5), feeds), f32(vector({0, 1}))));
  CHECK(evaluate(log_add_exp2(x, 4), feeds).values<float>()[1] == doctest::Approx(5));
  CHECK(same_bits(evaluate(where(x > 0, x, -1e9), feeds), f32(vector({-1e9, 4}))));
  CHECK(same_bits(evaluate(where(n == 5, 0, n), feeds), i64(vector({0, 200}))));
  const Output half = cast(x, DType::f16);
  CHECK(maximum(half, 1).dtype() == DType::f16);
}

TEST_CASE("a number that fits neither side of a function is refused at the caller's line") {
  Graph graph;
  const Output n = placeholder(graph, DType::i64, Shape{2});
  const std::string here = "operators_test.cpp:" + std::to_string(__LINE__ + 1);
  check_invalid([&] { less(n, 0.5); }, "the number 0.5 at ", here, "is no i64 value");
  check_invalid([] { maximum(1, 2.0); }, "both inputs are numbers, which have no dtype");
  check_invalid([] { pow(Output{}, 2); }, "the input beside the number is an undefined Output");
}

TEST_CASE("axes of a reduction are options or a list") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, Shape{2, 3, 2});
  const auto same = [](Output a, Output b) {
    CHECK(a.shape() == b.shape());
    const Node &m = a.graph->node(a.node), &n = b.graph->node(b.node);
    CHECK(m.op == n.op);
    CHECK(m.attr<std::vector<int64_t>>("axes") == n.attr<std::vector<int64_t>>("axes"));
    CHECK(m.attr<bool>("keep_dims") == n.attr<bool>("keep_dims"));
  };
  const int64_t last = -1;
  same(reduce_mean(x, {1, 2}), reduce_mean(x, {.axes = {1, 2}}));
  same(reduce_mean(x, {1}), reduce_mean(x, {.axes = {1}}));
  same(reduce_sum(x, {last}), reduce_sum(x, {.axes = {-1}}));
  same(reduce_max(x, {}), reduce_max(x));
  same(reduce_min(x, {0}), reduce_min(x, {.axes = {0}}));
  same(reduce_prod(x, {{1}, true}), reduce_prod(x, {.axes = {1}, .keep_dims = true}));
  same(reduce_any(x > 0, {0, 2}), reduce_any(x > 0, {.axes = {0, 2}}));
  same(reduce_all(x > 0, {0}), reduce_all(x > 0, {.axes = {0}}));
  CHECK(log_sum_exp(x, {0, 1}).shape() == Shape{2});
}

TEST_CASE("% is the modulo with the sign of the divisor") {
  Graph graph;
  const Output n = placeholder(graph, DType::i32, Shape{2});
  const FedValues feeds = {{n, i32(vector({7, -7}))}};
  CHECK(same_bits(evaluate(n % 4, feeds), i32(vector({3, 1}))));
  CHECK(same_bits(evaluate(10 % n, feeds), i32(vector({3, -4}))));
}

TEST_CASE("& | ^ are of bits, and of bool") {
  Graph graph;
  const Output n = placeholder(graph, DType::i32, Shape{2}),
               x = placeholder(graph, DType::f32, {2});
  const FedValues feeds = {{n, i32(vector({12, -1}))}, {x, f32(vector({0.5, 2}))}};
  CHECK(same_bits(evaluate(n & 10, feeds), i32(vector({8, 10}))));
  CHECK(same_bits(evaluate(n | 1, feeds), i32(vector({13, -1}))));
  CHECK(same_bits(evaluate(n ^ n, feeds), i32(vector({0, 0}))));
  const Output inside = greater(x, 0 * x) & less(x, 0 * x + 1);
  CHECK(same_bits(evaluate(inside, feeds), booleans(vector({1, 0}))));
}

TEST_CASE("bitwise_not adds an Invert node") {
  Graph graph;
  const Output x = placeholder(graph, DType::i32, Shape{});
  CHECK(evaluate(bitwise_not(x), {{x, i32(scalar(7))}}).item<int32_t>() == -8);
}

TEST_CASE("an operator names the line of its caller") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, Shape{2}),
               y = placeholder(graph, DType::f32, Shape{3});
  const std::string here = "operators_test.cpp:" + std::to_string(__LINE__ + 1);
  CHECK_THROWS_WITH_AS(x + y, doctest::Contains(here.c_str()), Error);
}

TEST_CASE("a number that the other side cannot hold is refused") {
  Graph graph;
  const Output n = placeholder(graph, DType::i32, Shape{2});
  CHECK_THROWS_WITH_AS(n * 2.5, doctest::Contains("the number 2.5"), Error);
  CHECK_THROWS_WITH_AS(n + 3e9, doctest::Contains("is no i32 value"), Error);
}

TEST_CASE("operators refuse undefined outputs") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, Shape{2});
  CHECK_THROWS_WITH_AS(x + Output{}, doctest::Contains("is an undefined Output"), Error);
  CHECK_THROWS_WITH_AS(Output{} + 1.0, doctest::Contains("undefined Output"), Error);
  CHECK_THROWS_WITH_AS(-Output{}, doctest::Contains("undefined Output"), Error);
}

}  // namespace troupe

// Identity, StopGradient, WithGradient and Print as ops that pass their input on;
// tests/gradients/gradient_test.cpp tests the use of WithGradient by gradients().
#include <iostream>
#include <sstream>

#include "graph/op.hpp"
#include "tests/support/op_cases.hpp"
#include "troupe/ops/control_flow.hpp"

namespace troupe {
namespace {

OpCases passed_on_by(const std::string& op) {
  return table_of(op,
                  {
                      Case("a matrix", {matrix({{1, 0}, {1, 1}})}, {matrix({{1, 0}, {1, 1}})}),
                      Case("NaN stays NaN", {vector({NAN, -0.5})}, {vector({NAN, -0.5})}).rough(),
                      Case("size one", {vector({1})}, {vector({1})}),
                      Case("empty", {zeros({0, 2})}, {zeros({0, 2})}),
                      Case("any numbers", {vector({1.5, -2})}, {vector({1.5, -2})}),
                  },
                  {
                      Refused({zeros({1}), zeros({1})}, "wants 1 input (x), got 2"),
                  });
}
const ListedCases listed_identity([] { return passed_on_by("Identity"); }),
    listed_stop([] { return passed_on_by("StopGradient"); }),
    listed_with([] { return passed_on_by("WithGradient"); });

// Captures the output to std::cerr during its lifetime.
class Stderr {
 public:
  Stderr() : before_(std::cerr.rdbuf(text_.rdbuf())) {}
  ~Stderr() { std::cerr.rdbuf(before_); }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::streambuf* before_;
};

const Table print_table("Print passes its input on", [] {
  const Attrs quiet = {{"text", std::string("x")}, {"most", int64_t{0}}};
  return table_of("Print",
                  {Case("a matrix", {iota({2, 3})}, {iota({2, 3})}, quiet),
                   Case("nothing", {zeros({0})}, {zeros({0})}, quiet)},
                  {Refused({scalar(1)}, "wants every of at least 1, got 0",
                           {{"text", std::string()}, {"every", int64_t{0}}}),
                   Refused({scalar(1)}, "wants elements of at least 0, got -1",
                           {{"text", std::string()}, {"elements", int64_t{-1}}})});
});

}  // namespace

TEST_CASE("Identity, StopGradient and WithGradient pass their input on") {
  for (const char* op : {"Identity", "StopGradient", "WithGradient"}) check(passed_on_by(op));
}

TEST_CASE("identity shares its input's memory, and has the name it was given") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, Shape{2});
  const Output y = identity(x, "result");
  CHECK(y.name() == "result");
  const Tensor value = f32(vector({1, 2}));
  CHECK(evaluate(y, {{x, value}}).raw() == value.raw());
}

TEST_CASE("no gradient flows back through stop_gradient") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, Shape{});
  CHECK(!gradients({stop_gradient(x)}, {x})[0].defined());
  const Output dx = gradients({multiply(x, stop_gradient(x))}, {x})[0];  // x times a constant
  CHECK(evaluate(dx, {{x, scalar(3)}}).item<double>() == 3);
}

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

TEST_CASE("a line of Print names node, run, step, type and the first elements") {
  Graph g;
  const Output y = print(constant(g, f32(vector({1, 2.5, -3, 4}))), "weights", {.elements = 3});
  const Stderr heard;
  evaluate(g, {y}, {}, {.run = 7, .step = 3});
  CHECK(heard.text() == "weights: node=Print run=7 step=3 type=f32[4] values=[1 2.5 -3 ...]\n");
}

TEST_CASE("every and most bound the lines of Print") {
  Graph g;
  const Output y = print(constant(g, booleans(scalar(1))), "flag", {.every = 3, .most = 2});
  const Node& node = g.node(y.node);
  const NodeView view = NodeView::make(node, *find_kernel(node, DeviceKind::cpu));
  HeapMemory memory;
  const Stderr heard;
  for (int64_t run = 0; run < 20; ++run)
    run_kernel(view, {booleans(scalar(1))}, memory, {.run = run});
  CHECK(heard.text() ==
        "flag: node=Print run=0 type=bool[] values=[true]\n"
        "flag: node=Print run=3 type=bool[] values=[true]\n");
}

}  // namespace troupe

// Functions while a graph is built: the nodes that a call adds, the text of each refusal, and the
// text form. Tests of the computed values are in tests/actors/master/session_function_test.cpp.

#include <algorithm>

#include "graph/prune.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/within.hpp"
#include "troupe/nn.hpp"
#include "troupe/op.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/control_flow.hpp"

namespace troupe {
namespace {

using Values = std::vector<Output>;
const TensorType kCount{DType::i64, Shape{}};
const TensorType kNumber{DType::f64, Shape{}};

int64_t nodes_of(const Graph& graph, std::string_view op) {
  return std::count_if(graph.nodes().begin(), graph.nodes().end(),
                       [&](const auto& node) { return node->op->name == op; });
}

Function make_square(Graph& graph) {
  return define_function(graph, "square", {kNumber},
                         [](const Values& x) { return Values{x[0] * x[0]}; });
}

Function make_down(Graph& graph) {
  Function down = declare_function(graph, "down", {kCount}, {kCount});
  down.define([&](const Values& n) {
    return Values{cond(
        less(n[0], fill(graph, {}, 1, DType::i64)), [&] { return n[0]; },
        [&] { return down({n[0] - 1})[0]; })};
  });
  return down;
}

template <class F>
void refused(F&& call, const std::vector<std::string>& parts) {
  const Refusal refusal = refusal_of(call);
  CHECK(refusal.code == Errc::invalid_argument);
  has(refusal.text, "function_test.cpp:");
  for (const std::string& part : parts) has(refusal.text, part);
}

}  // namespace

TEST_CASE("a call of a function that does not call itself is its nodes, in the scope of the call") {
  Graph graph;
  const Function square = make_square(graph);
  CHECK(square.defined());
  CHECK(square.name() == "square");
  const Output x = placeholder(graph, DType::f64, {}, "x");
  const Output y = within(graph.scope({.name = "tower1", .device = "/device:cpu:1", .replica = 1}),
                          [&] { return square(square({x}))[0]; });
  const Node& node = graph.node(y.node);
  CHECK(node.op->name == "Multiply");
  CHECK(node.name == "tower1/square/Multiply_1");
  CHECK(node.device == "/device:cpu:1");
  CHECK(node.replica == 1);
  CHECK(node.frame == -1);
  CHECK(node.inputs[0].name() == "tower1/square/Multiply");
  CHECK(nodes_of(graph, "Call") == 0);
  // The function's own body is not needed.
  for (int32_t id : prune(graph, {y})) CHECK(graph.node(id).op->name != "Argument");
}

TEST_CASE("all calls of a function that calls itself run one body, in each device's scope one") {
  Graph graph;
  const Function down = make_down(graph);
  const Output n = placeholder(graph, DType::i64, {}, "n");
  const auto body = [&](const Output& call) {
    CHECK(graph.node(call.node).op->name == "Call");
    return graph.node(call.node).attr<std::string>("function");
  };
  const std::string here = body(down({n})[0]);
  CHECK(body(down({n + 1})[0]) == here);
  const auto scope = graph.scope({.device = "/device:cpu:1"});
  const Output there = down({n})[0];
  CHECK(body(there) != here);
  CHECK(graph.node(there.node).colocate_with == body(there));
  CHECK(nodes_of(graph, "Function") == 3);  // includes the one that the program defined
}

TEST_CASE("a layer in a body has its parameters, and their first values, outside of it") {
  Graph graph;
  nn::Model model(graph);
  const Function f =
      define_function(graph, "f", {{DType::f32, Shape{-1, 3}}},
                      [&](const Values& x) { return Values{nn::dense(model, x[0], 3)}; });
  const Output x = placeholder(graph, DType::f32, {2, 3}, "x");
  const Output y = f(f({x}))[0];
  REQUIRE(model.parameters().size() == 2);
  for (const Output& parameter : model.parameters()) {
    const Node& node = graph.node(parameter.node);
    CHECK(node.frame == -1);
    CHECK(graph.node(graph.output(node.attr<std::string>("initial")).node).frame == -1);
    CHECK(gradients({y}, {parameter})[0].defined());
  }
  CHECK(nodes_of(graph, "Parameter") == 2);
}

TEST_CASE("a replica's calls read the parameters of that replica") {
  Graph graph;
  const Output w0 = fill(graph, {}, 1, DType::f64);
  const Function f = define_function(
      graph, "f", {kNumber}, [&](const Values& x) { return Values{x[0] * parameter("w", w0)}; });
  const Output x = placeholder(graph, DType::f64, {}, "x");
  for (int64_t replica : {0, 1, 1}) {
    const auto scope = graph.scope({.replica = replica});
    const Output y = f({x})[0];
    CHECK(graph.node(graph.node(y.node).inputs[1].node).attr<int64_t>("replica") == replica);
  }
  CHECK(nodes_of(graph, "Parameter") == 2);
}

TEST_CASE("a first value that is made in a body, a branch or a loop is refused where it is made") {
  Graph graph;
  const auto make = [&] { return parameter("w", fill(graph, {}, 2, DType::f64)); };
  const Output yes = constant(graph, Tensor::scalar(true));
  const auto in_body = [&] {
    define_function(graph, "f", {kNumber}, [&](const Values& x) { return Values{x[0] * make()}; });
  };
  const auto in_branch = [&] {
    cond(
        yes, [&] { return make(); }, [&] { return make(); });
  };
  const auto in_loop = [&] {
    while_loop([](const Values& v) { return v[0]; },
               [&](const Values& v) { return Values{logical_and(v[0], less(make(), make()))}; },
               {yes});
  };
  const std::string why =
      "but it is computed once, before the first step; make the parameter outside";
  refused(in_body, {"parameter w made at ", "its initial value, the Fill node f/Fill made at ",
                    "is inside the Function node f made at ", why});
  refused(in_branch, {"parameter w made at ", "is inside the Branch node cond/branch1", why});
  refused(in_loop, {"parameter w made at ", "is inside the ", why});
  refused(
      [&] {
        cond(
            yes, [&] { return parameter("v", constant(graph, Tensor::scalar(1.0))); },
            [&] { return constant(graph, Tensor::scalar(2.0)); });
      },
      {"parameter v made at ", "is inside the Branch node", why});
  CHECK(nodes_of(graph, "Parameter") == 0);
  make();  // a parameter that has its initial value already is found from any place
  in_body();
  CHECK(nodes_of(graph, "Parameter") == 1);
}

TEST_CASE("a call with the wrong arguments is refused with what was given and what is wanted") {
  Graph graph, other;
  const Function square = make_square(graph);
  const Output x = placeholder(graph, DType::f64, {}, "x");
  const Output row = placeholder(graph, DType::f64, {3}, "row");
  const Output n = placeholder(graph, DType::i64, {}, "n");
  const std::string called = "function square, called at ";
  refused([&] { square({}); }, {called, "wants 1 argument (f64[]), got 0 (nothing)"});
  refused([&] { square({x, x}); }, {called, "wants 1 argument (f64[]), got 2 (f64[] f64[])"});
  refused([&] { square({n}); }, {called, "got 1 (i64[]); cast or reshape them"});
  refused([&] { square({row}); }, {called, "got 1 (f64[3])", "declare -1 for sizes that differ"});
  refused([&] { square({Output()}); }, {called, "argument 0 is an undefined Output"});
  const Output far = placeholder(other, DType::f64, {}, "far");
  refused([&] { square({far}); }, {called, "argument 0 (far) is of another graph"});
  refused([&] { Function()({x}); }, {"it is an empty Function"});
  const Function no_function(x);
  refused([&] { no_function({x}); }, {"is no function of a program"});
  CHECK(graph.nodes().size() == 7);  // four of square and three placeholders; no call added any
}

TEST_CASE("a body that is not what was declared is refused") {
  Graph graph, other;
  const auto declare = [&] { return declare_function(graph, "f", {kNumber}, {kNumber}); };
  refused([&] { declare().define([](const Values& x) {
                  return Values{x[0], x[0]};
                }); },
          {"function f, defined at ", "its body returns f64[] f64[]",
           "its results were declared as f64[]"});
  refused([&] { declare().define([](const Values& x) { return Values{cast(x[0], DType::f32)}; }); },
          {"its body returns f32[], but its results were declared as f64[]"});
  refused([&] { declare().define([](const Values&) { return Values(); }); }, {"returns nothing"});
  refused([&] { declare().define(nullptr); }, {"its body is an empty function"});
  refused([&] { declare().define([&](const Values&) { return Values{fill(other, {}, 1)}; }); },
          {"returns an Output as number 0 that is of another graph"});
  Function twice = make_square(graph);
  refused([&] { twice.define([](const Values& x) { return x; }); },
          {"function square, defined at ", "it has a body already, made at "});
  refused([&] { declare_function(graph, "", {}, {}); }, {"a function needs a name"});
  refused([&] { declare_function(graph, "f", {{}}, {}); }, {"an argument has no dtype"});
  refused([&] { declare_function(graph, "f", {kNumber}, {}, {.depth_max = 0}); },
          {"wants a depth_max from 1"});
}

TEST_CASE("a function that calls itself says its results and takes something that can end that") {
  Graph graph;
  const Output n = placeholder(graph, DType::i64, {}, "n");
  Function open = declare_function(graph, "open", {kCount}, {});
  refused([&] { open.define([&](const Values& k) { return open({k[0] - 1}); }); },
          {"function open, called at ", "its results were not declared"});
  Function empty = declare_function(graph, "empty", {}, {kCount});
  refused([&] { empty.define([&](const Values&) { return empty({}); }); },
          {"it calls itself, and takes no arguments"});
  Function later = declare_function(graph, "later", {kCount}, {kCount});
  refused([&] { later({n}); }, {"function later, called at ", "has no body yet"});
  Function pushes = declare_function(graph, "pushes", {kNumber}, {kNumber});
  const Output w0 = fill(graph, {}, 1, DType::f64);
  pushes.define([&](const Values& x) {
    const Output w = parameter("w", w0);
    const auto scope = graph.scope({.control_inputs = {push_gradient(w, x[0]).node}});
    return pushes({x[0] * w});
  });
  refused([&] { pushes({fill(graph, {}, 1, DType::f64)}); }, {"which counts once a step"});
}

TEST_CASE("what is in a body cannot be read, fetched or fed from outside") {
  Graph graph;
  Output inside;
  const Function f = define_function(graph, "f", {kNumber}, [&](const Values& x) {
    inside = x[0] * x[0];
    return Values{inside};
  });
  has(refusal_of([&] { add(inside, inside); }).text, "which is inside the Function node f");
  has(refusal_of([&] { prune(graph, {inside}); }).text, "name what the cond, the loop or the call");
  has(refusal_of([&] { prune(graph, {f.node()}); }).text, "name what a call of it returns");
}

TEST_CASE("a function is found by its name") {
  Graph graph;
  make_square(graph);
  const auto scope = graph.scope({.name = "tower"});
  make_down(graph);
  CHECK(find_function(graph, "tower/down").name() == "tower/down");
  refused([&] { find_function(graph, "cube"); },
          {"the graph has no function \"cube\"; it has square, tower/down"});
}

TEST_CASE("functions and calls read back as they were written") {
  Graph graph;
  const Function down = make_down(graph);
  const Output n = placeholder(graph, DType::i64, {}, "n");
  down({n});
  const std::string text = to_text(graph);
  has(text,
      "down = Function() arguments=\"i64[]\" depth_max=100000 gradient_of=\"\" of=\"\" path=-1 "
      "results=\"i64[]\"");
  has(text, "Call(n) function=\"down_1\" results=\"i64[]\"");
  const auto read = graph_from_text(text);
  CHECK(to_text(*read) == text);
  CHECK(find_function(*read, "down").defined());
  const Refusal refusal =
      refusal_of([&] { graph_from_text("troupe graph 1\nf = Function() arguments=\"f32\"\n"); });
  has(refusal.text, "attribute arguments is no list of types: \"f32\"");
}

TEST_CASE("a call of what is no function is refused when the graph is to run") {
  const auto graph = graph_from_text(
      "troupe graph 1\n"
      "f = Function() arguments=\"f32[]\" results=\"f32[]\"\n"
      "x = Placeholder() dtype=f32 shape=[]\n"
      "a = Call(x) function=\"f\" results=\"f32[]\"\n"
      "b = Call(x) function=\"x\" results=\"f32[]\"\n");
  has(refusal_of([&] { prune(*graph, {graph->output("a")}); }).text, "which has no body");
  has(refusal_of([&] { prune(*graph, {graph->output("b")}); }).text, "which is no function");
}

}  // namespace troupe

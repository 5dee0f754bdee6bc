// pull_rows: graphs before and after it.
#include <doctest/doctest.h>

#include "tests/support/pass_text.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/row_sparse.hpp"

namespace troupe {
TEST_CASE("of a parameter that is only gathered from the rows are pulled") {
  Graph g;
  const Output w = parameter("w", constant(g, Tensor::zeros(DType::f32, {4, 2})));
  const Output ids = placeholder(g, DType::i64, {-1}, "ids");
  const Output rows = gather(w, ids), others = gather(w, ids * 2);
  const Output push = push_row_gradient(w, {ids, rows}, sgd(0.1), {w.node});
  CallGraph call = call_graph(g, {rows, others, push}, {ids});
  const Rewritten after = rewrite(pull_rows, std::move(call));
  const Graph& now = *after.call.graph;
  for (const auto& node : now.nodes()) {
    CHECK(node->op->name != "Parameter");
    CHECK(node->op->name != "Gather");
    if (node->op->name != "PushRowGradient") continue;
    std::vector<std::string> before;
    for (const int32_t id : node->control_inputs) before.push_back(now.node(id).op->name);
    CHECK(before == std::vector<std::string>{"ParameterRows", "ParameterRows"});
  }
  const Node& pulled = now.node(after.call.fetches[0].node);
  CHECK(pulled.name == g.node(rows.node).name);
  CHECK(pulled.op->name == "ParameterRows");
  CHECK(pulled.attr<std::string>("parameter") == "w");
  CHECK(pulled.outputs[0] == TensorType{DType::f32, Shape{-1, 2}});
}

TEST_CASE("a parameter that something else reads, or that is fetched or fed, is pulled whole") {
  Graph g;
  const Output w = parameter("w", constant(g, Tensor::zeros(DType::f32, {4, 2})));
  const Output ids = placeholder(g, DType::i64, {-1}, "ids");
  const Output rows = gather(w, ids), sum = reduce_sum(w);
  const auto left = [&](const std::vector<Output>& fetches, const std::vector<Output>& feeds) {
    const Rewritten after = rewrite(pull_rows, call_graph(g, fetches, feeds));
    for (const auto& node : after.call.graph->nodes())
      if (node->op->name == "ParameterRows") return false;
    return true;
  };
  CHECK(left({rows, sum}, {ids}));
  CHECK(left({rows, w}, {ids}));
  CHECK(left({rows}, {ids, w}));
  CHECK(!left({rows}, {ids}));
  {
    const auto shadow = g.scope({.device = "/device:shadow:0"});
    const Output elsewhere = gather(w, ids);
    CHECK(left({elsewhere}, {ids}));
  }
  // What is to run after the parameter and comes before the gather cannot wait for it.
  Graph other;
  const Output v = parameter("v", constant(other, Tensor::zeros(DType::f32, {4, 2})));
  const Output first = other.add({.op = "Constant",
                                  .attrs = {{"value", Tensor::of<int64_t>({1}, {1})}},
                                  .control_inputs = {v.node}});
  const Output late = gather(v, first);
  const Rewritten after = rewrite(pull_rows, call_graph(other, {late}, {}));
  CHECK(after.call.graph->node(after.call.fetches[0].node).op->name == "Gather");
}

TEST_CASE("a row that the gradient of a sum repeats is pushed once") {
  struct Pushed {
    std::string from;  // the op that makes the values
    int64_t indices_per_row, row_size;
  };
  const auto pushed = [](const Shape& ids, int64_t width, ReduceOptions sum, bool mean, bool feed) {
    Graph g;
    const Shape shape = width > 0 ? Shape{9, width} : Shape{9};
    const Output w = parameter("w", constant(g, Tensor::zeros(DType::f32, shape)));
    const Output which = placeholder(g, DType::i64, ids, "ids");
    const Output rows = gather(w, which);
    const Output sums = mean ? reduce_mean(rows, sum) : reduce_sum(rows, sum);
    const Output update = minimize(reduce_sum(square(sums)), sgd(1));
    std::vector<Output> feeds = {which};
    for (const auto& node : g.nodes())
      if (feed && node->op->name == "ReduceGradient" && node->inputs[0].shape().ndim() > 0)
        feeds.push_back({&g, node->id, 0});
    const Rewritten after = rewrite(pull_rows, call_graph(g, {update}, feeds));
    for (const auto& node : after.call.graph->nodes())
      if (node->op->name == "PushRowGradient")
        return Pushed{after.call.graph->node(node->inputs[1].node).op->name,
                      node->attr<int64_t>("indices_per_row"), node->attr<int64_t>("row_size")};
    return Pushed{};
  };
  const auto check = [](const Pushed& p, int64_t indices_per_row, int64_t row_size) {
    CHECK(p.from == "Multiply");  // of the square
    CHECK(p.indices_per_row == indices_per_row);
    CHECK(p.row_size == row_size);
  };
  check(pushed({5, 4}, 0, {.axes = {1}}, false, false), 4, 1);
  check(pushed({-1, 4}, 0, {.axes = {-1}, .keep_dims = true}, false, false), 4, 1);
  check(pushed({5, 4}, 3, {.axes = {1}}, false, false), 4, 3);
  check(pushed({-1, 2, 4}, 3, {.axes = {1, 2}}, false, false), 8, 3);
  check(pushed({5, 4}, 0, {}, false, false), 20, 1);  // over all axes
  for (const Pushed& p :
       {pushed({5, 4}, 3, {.axes = {0}}, false, false),  // not one after the other
        pushed({5, 4}, 3, {.axes = {2}}, false, false),  // within rows
        pushed({2, 5, 4}, 0, {.axes = {0, 2}}, false, false),
        pushed({5, -1}, 0, {.axes = {1}}, false, false),  // how many is not known
        pushed({5, 4}, 0, {.axes = {1}}, true, false),
        pushed({5, 4}, 0, {.axes = {1}}, false, true)}) {
    CHECK(p.from != "");
    CHECK(p.indices_per_row == 1);
  }
}

TEST_CASE("a repeated row that runs after another node is pushed as often as it is there") {
  const auto times = [](bool sum_waits, bool rows_wait) {
    Graph g;
    const Output w = parameter("w", constant(g, Tensor::zeros(DType::f32, {9})));
    const Output ids = placeholder(g, DType::i64, {20}, "ids");
    const Output like = placeholder(g, DType::f32, {5, 4}), dy = placeholder(g, DType::f32, {5});
    const Output first = random_uniform(g, {});
    const auto after = [&](bool waits) {
      return waits ? std::vector<int32_t>{first.node} : std::vector<int32_t>{};
    };
    const Output all = g.add({.op = "ReduceGradient",
                              .inputs = {dy, like},
                              .attrs = {{"axes", std::vector<int64_t>{1}}},
                              .control_inputs = after(sum_waits)});
    const Output rows = g.add({.op = "Reshape",
                               .inputs = {all},
                               .attrs = {{"shape", Shape{20}}},
                               .control_inputs = after(rows_wait)});
    const Output push = push_row_gradient(w, {ids, rows}, sgd(1));
    const Rewritten now = rewrite(pull_rows, call_graph(g, {push}, {ids, like, dy}));
    return now.call.graph->node(now.call.fetches[0].node).attr<int64_t>("indices_per_row");
  };
  CHECK(times(false, false) == 4);
  CHECK(times(true, false) == 1);
  CHECK(times(false, true) == 1);
}

}  // namespace troupe

// pull_rows: graphs before and after it.
#include "ops/state/pushes.hpp"
#include "tests/support/pass_text.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/parameters.hpp"

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
  // A node that runs after the parameter and before the gather cannot wait for the gather.
  Graph other;
  const Output v = parameter("v", constant(other, Tensor::zeros(DType::f32, {4, 2})));
  const Output first = other.add({.op = "Constant",
                                  .attrs = {{"value", Tensor::of<int64_t>({1}, {1})}},
                                  .control_inputs = {v.node}});
  const Output late = gather(v, first);
  const Rewritten after = rewrite(pull_rows, call_graph(other, {late}, {}));
  CHECK(after.call.graph->node(after.call.fetches[0].node).op->name == "Gather");
}

}  // namespace troupe

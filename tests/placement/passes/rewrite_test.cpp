// The parts that all passes share: the subgraph that a call needs, and how edits are carried out.
#include "tests/support/pass_text.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

const std::string kX = "x = Placeholder() dtype=f32 shape=[2]\n";

std::string needed(const std::string& lines, const std::vector<std::string>& fetches,
                   const std::vector<std::string>& feeds = {}) {
  return after(no_edits, lines, fetches, feeds);
}

}  // namespace

TEST_CASE("a call has what its fetches need, and what is fed") {
  CHECK(needed(kX + "a = Square(x)\nb = Negate(x)\nc = Negate(a)\n", {"b"}, {"x"}) ==
        kX + "b = Negate(x)\n");
  const std::string fed = kX + "a = Square(x)\nb = Negate(a)\n";
  CHECK(needed(fed + "c = Negate(x)\n", {"b"}, {"a"}) == fed);  // a stays: the graph is whole
  CHECK(needed(fed, {"x"}, {"x", "a"}) == kX + "a = Square(x)\n");
}

TEST_CASE("a call of a graph with placed nodes has their devices, and no partners any more") {
  const auto graph = graph_of(kX + "a = Square(x) on \"/device:cpu:1\"\nb = Negate(a) with a\n");
  const std::map<int32_t, std::string> devices = {{0, "/job:w/task:0/device:cpu:0"},
                                                  {1, "/job:w/task:0/device:cpu:1"},
                                                  {2, "/job:w/task:0/device:cpu:1"}};
  CHECK(text_of(call_graph(*graph, {graph->output("b")}, {}, &devices)) ==
        "x = Placeholder() dtype=f32 shape=[2] on \"/job:w/task:0/device:cpu:0\"\n"
        "a = Square(x) on \"/job:w/task:0/device:cpu:1\"\n"
        "b = Negate(a) on \"/job:w/task:0/device:cpu:1\"\n");
}

TEST_CASE("a partner that is not needed leaves its wish") {
  CHECK(needed(kX + "p = Square(x) on \"/job:ps\"\n"
                    "q = Square(x) on \"/device:cpu:1\" with p\n"
                    "a = Negate(x) with q\n"
                    "b = Square(a) with a\n",
               {"b"}) == kX + "a = Negate(x) on \"/job:ps/device:cpu:1\"\nb = Square(a) with a\n");
}

TEST_CASE("the nodes of a call know what they were, and outputs are found where they went") {
  const auto graph = graph_of(kX + "unread = Square(x)\na = Identity(x)\nb = Negate(a)\n");
  CallGraph call = call_graph(*graph, {graph->output("b")}, {graph->output("x")});
  CHECK(call.origins == std::vector<int32_t>{0, 2, 3});
  const Output x = call.graph->output("x"), a = call.graph->output("a"),
               b = call.graph->output("b");
  const Rewritten next = rewrite(simplify, std::move(call));
  CHECK(next.call.origins == std::vector<int32_t>{0, 3});
  CHECK(next.moved[a].is(next.call.graph->output("x")));
  CHECK(next.moved[b].is(next.call.graph->output("b")));
  CHECK(next.moved[x].is(next.call.feeds[0]));
  CHECK(next.call.fetches[0].is(next.call.graph->output("b")));
  CHECK(next.call.graph->find("a") == nullptr);

  const auto folding = graph_of("c = Constant() value=f32[] {2}\nd = Square(c)\n");
  CallGraph constants = call_graph(*folding, {folding->output("d")}, {});
  const Output c = constants.graph->output("c");
  CHECK(!rewrite(fold_here, std::move(constants)).moved[c].defined());  // c has no reader left
}

TEST_CASE("an edit that would change a type, or read what comes later, is a bug that is named") {
  const auto graph = graph_of(kX + "s = ReduceSum(x) axes={} keep_dims=false\nb = Negate(x)\n");
  const CallGraph call = call_graph(*graph, outputs_of(*graph, {"s", "b"}), {});
  Edits edits(call);
  const Node &s = *call.graph->find("s"), &b = *call.graph->find("b");
  CHECK_THROWS_AS(edits.forward(s, call.graph->output("x")), InternalError);
  CHECK_THROWS_AS(edits.forward(s, call.graph->output("b")), InternalError);
  CHECK_THROWS_AS(edits.merge(b, s), InternalError);
}

TEST_CASE("the gradient of a first layer's input is never computed") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {4, 8, 8, 3}, "x");
  const Output f0 = parameter("f0", fill(graph, {3, 3, 3, 2}, 0.5));
  const Output f1 = parameter("f1", fill(graph, {3, 3, 2, 2}, 0.5));
  const Output w = parameter("w", fill(graph, {128, 5}, 0.5));
  const Output h = reshape(conv2d(relu(conv2d(x, f0)), f1), {4, 128});
  const Output loss = reduce_mean(square(matmul(h, w)));
  const std::vector<Output> slopes = gradients({loss}, {f0, f1, w});
  const auto count = [](const Graph& in, const std::string& op) {
    int64_t n = 0;
    for (const auto& node : in.nodes()) n += node->op->name == op;
    return n;
  };
  CHECK(count(graph, "ConvolutionInputGradient") == 2);  // as the gradient rules built them
  const CallGraph call = call_graph(graph, slopes, {x});
  CHECK(count(*call.graph, "ConvolutionInputGradient") == 1);  // of the second convolution
  CHECK(count(*call.graph, "ConvolutionFilterGradient") == 2);

  Graph dense;
  const Output in = placeholder(dense, DType::f32, {4, 3}, "x");
  const Output v = parameter("v", fill(dense, {3, 2}, 0.5));
  const Output square_of_v = square(matmul(in, v));
  const auto dv = gradients({reduce_sum(square_of_v)}, {v});
  CHECK(count(dense, "MatMul") == 3);
  CHECK(count(*call_graph(dense, dv, {in}).graph, "MatMul") == 2);  // forward, and dv
}

}  // namespace troupe

// The passes of a call in their order, the output of explain_passes(), and the growth of their time
// with the graph.
#include "placement/call_graph.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <ctime>

#include "graph/prune.hpp"
#include "placement/passes/passes.hpp"
#include "tests/support/evaluate.hpp"
#include "tests/support/within.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

// A chain of layers with work for every pass; all layers have the same weights.
struct Chain {
  Graph graph;
  Output x, y;
  explicit Chain(int64_t nodes) {
    x = placeholder(graph, DType::f32, {2}, "x");
    const Output a = fill(graph, {2}, 3), b = fill(graph, {2}, 2);
    y = x;
    while (static_cast<int64_t>(graph.nodes().size()) < nodes) {
      const Output w = subtract(a, b);                   // always the same constant
      y = identity(multiply(y, w));                      // times one
      y = add(y, relu(subtract(square(y), square(y))));  // squared twice
    }
  }
};

Placement on_one_device(const Graph& graph, const std::vector<Output>& fetches,
                        const std::vector<Output>& feeds) {
  return place(graph, prune(graph, fetches, feeds),
               {.devices = {"/job:me/task:0/device:cpu:0"},
                .default_device = "/job:me/task:0/device:cpu:0"});
}

// The best CPU time of three runs on this thread.
template <class F>
double cpu_ms(F&& work) {
  double best = 1e300;
  for (int i = 0; i < 3; ++i) {
    timespec begin{}, end{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    work();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    best = std::min(best, static_cast<double>(end.tv_sec - begin.tv_sec) * 1e3 +
                              static_cast<double>(end.tv_nsec - begin.tv_nsec) * 1e-6);
  }
  return best;
}

double passes_ms(int64_t nodes, bool passes) {
  const Chain chain(nodes);
  const Placement placement = on_one_device(chain.graph, {chain.y}, {chain.x});
  return cpu_ms([&] { make_call_graph(chain.graph, {chain.y}, {chain.x}, &placement, passes); });
}

}  // namespace

TEST_CASE("each pass is shown with its name, what it left, and the graph after it") {
  const auto graph = graph_from_text(
      "troupe graph 1\n"
      "x = Placeholder() dtype=f32 shape=[2]\n"
      "unread = Negate(x)\n"
      "two = Constant() value=f32[] {2}\n"
      "half = Constant() value=f32[] {0.5}\n"
      "one = Multiply(two, half)\n"
      "a = Multiply(x, one)\n"
      "b = Square(x)\n"
      "c = Square(a)\n"
      "y = Add(b, c)\n");
  const auto results = explain_passes(*graph, {graph->output("y")}, {graph->output("x")});
  REQUIRE(results.size() == 10);
  const auto check = [&](size_t i, const std::string& pass, int64_t before, int64_t after) {
    CHECK(results[i].pass == pass);
    CHECK(results[i].nodes_before == before);
    CHECK(results[i].nodes_after == after);
  };
  check(0, "prune", 9, 8);
  check(1, "fold_constants", 8, 6);
  check(2, "simplify", 6, 4);
  check(3, "merge_common", 4, 3);
  check(4, "layout", 3, 3);
  check(5, "pull_rows", 3, 3);
  check(6, "push_rows_once", 3, 3);
  check(7, "join", 3, 3);
  check(8, "defer_broadcast", 3, 3);
  check(9, "fuse", 3, 2);
  CHECK(results[1].graph ==
        "troupe graph 1\n"
        "x = Placeholder() dtype=f32 shape=[2]\n"
        "one = Constant() value=f32[] {1}\n"
        "a = Multiply(x, one)\n"
        "b = Square(x)\n"
        "c = Square(a)\n"
        "y = Add(b, c)\n");
  CHECK(results[3].graph ==
        "troupe graph 1\n"
        "x = Placeholder() dtype=f32 shape=[2]\n"
        "b = Square(x)\n"
        "y = Add(b, b)\n");
  CHECK_THROWS_WITH_AS(explain_passes(*graph, {Output{}}), doctest::Contains("undefined Output"),
                       Error);
}

TEST_CASE("with passes off a call has what it needs and no less") {
  const Chain chain(30);
  const auto plain = make_call_graph(chain.graph, {chain.y}, {chain.x}, nullptr, false);
  const auto passed = make_call_graph(chain.graph, {chain.y}, {chain.x}, nullptr, true);
  CHECK(plain.graph->nodes().size() == prune(chain.graph, {chain.y}, {chain.x}).size() + 1);
  CHECK(passed.graph->nodes().size() < plain.graph->nodes().size() * 2 / 3);
  const Tensor x = Tensor::of<float>({0.5F, -3}, {2});
  CHECK(same_bits(evaluate(*plain.graph, plain.fetches, {{plain.feeds[0], x}})[0],
                  evaluate(*passed.graph, passed.fetches, {{passed.feeds[0], x}})[0]));
}

TEST_CASE("nodes of a call have the devices and reasons of those they were made of") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {2}, "x");
  const Output y =
      within(graph.scope({.device = "/device:cpu:1"}), [&] { return negate(negate(negate(x))); });
  const std::string zero = "/job:me/task:0/device:cpu:0", one = "/job:me/task:0/device:cpu:1";
  const Placement placement =
      place(graph, prune(graph, {y}, {x}), {.devices = {zero, one}, .default_device = zero});
  const CallGraph call = make_call_graph(graph, {y}, {x}, &placement, true);
  const auto nodes = prune(*call.graph, call.fetches, call.feeds);
  const Placement after = placement_in(call, nodes, placement);
  REQUIRE(nodes.size() == 1);  // x is fed and does not run
  CHECK(call.graph->node(nodes[0]).name == y.name());
  CHECK(after.devices.at(nodes[0]) == one);
  CHECK(after.reasons.at(nodes[0]) == "asked for /device:cpu:1");
}

TEST_CASE("the passes of 36,000 nodes take four times as long as those of 9,000, not sixteen") {
  // Takes the best of several runs: other work on the machine only makes them slower.
  double small = passes_ms(9'000, true), large = passes_ms(36'000, true);
  for (int i = 0; i < 9 && large >= 8 * small; ++i) {
    small = std::min(small, passes_ms(9'000, true));
    large = std::min(large, passes_ms(36'000, true));
  }
  MESSAGE("36,000 nodes: " << passes_ms(36'000, false) << " ms without passes, " << large
                           << " ms with them; 9,000 nodes: " << small << " ms with them");
  CHECK(large < 10 * small);
}

}  // namespace troupe

// Cutting: graphs as text in, partitions as text out.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "graph/prune.hpp"
#include "placement/partition.hpp"
#include "tests/support/engine/toy_ops.hpp"

using namespace troupe;

namespace {

// Cuts along the devices that the nodes request. Nodes without a request stay with the client,
// "/job:me".
std::vector<Partition> cut(const Graph& graph, const std::vector<std::string>& fetches,
                           const std::vector<std::string>& feeds = {}) {
  std::map<int32_t, std::string> device_of;
  for (const auto& node : graph.nodes())
    device_of[node->id] = node->device.empty() ? "/job:me" : node->device;
  std::vector<Output> wanted, fed;
  for (const std::string& name : fetches) wanted.push_back(graph.output(name));
  for (const std::string& name : feeds) fed.push_back(graph.output(name));
  return partition(graph, wanted, fed, device_of, "/job:me");
}

std::string cut_text(const std::string& lines, const std::vector<std::string>& fetches,
                     const std::vector<std::string>& feeds = {}) {
  const auto graph = graph_from_text("troupe graph 1\n" + lines, toy_ops());
  return to_text(*graph, cut(*graph, fetches, feeds));
}

// Fires as the executor's loop does: a LIFO list; of the nodes made ready together, the highest
// number first.
std::vector<int32_t> fire(const Partition& p) {
  const auto reads = [](const PartNode& node, int32_t i) {
    return std::count(node.controls.begin(), node.controls.end(), i) ||
           std::any_of(node.inputs.begin(), node.inputs.end(),
                       [&](const PartInput& in) { return in.node == i; });
  };
  const auto ready_now = [&](const PartNode& node, const std::set<int32_t>& fired) {
    return std::all_of(node.controls.begin(), node.controls.end(),
                       [&](int32_t c) { return fired.count(c); }) &&
           std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](const PartInput& in) { return fired.count(in.node); });
  };
  std::vector<int32_t> stack, order;
  std::set<int32_t> fired;
  const int32_t count = static_cast<int32_t>(p.nodes.size());
  for (int32_t i = count; i-- > 0;)
    if (p.nodes[i].inputs.empty() && p.nodes[i].controls.empty()) stack.push_back(i);
  while (!stack.empty()) {
    const int32_t i = stack.back();
    stack.pop_back();
    order.push_back(i);
    fired.insert(i);
    for (int32_t r = count; r-- > 0;)
      if (reads(p.nodes[r], i) && ready_now(p.nodes[r], fired)) stack.push_back(r);
  }
  return order;
}

}  // namespace

TEST_CASE("a graph on one device is one partition without edges") {
  CHECK(cut_text("a = Source()\nb = Source()\nc = Add(a, b)\n", {"c"}) ==
        "partition /job:me\n"
        "  0 Source a\n"
        "  1 Source b\n"
        "  2 Add c (0:0, 1:0)\n"
        "  3 fetch c:0 (2:0)\n");
}

TEST_CASE("what no fetch needs is left out") {
  CHECK(cut_text("a = Source()\nb = Stop(a)\nc = Stop(a)\n", {"b"}) ==
        "partition /job:me\n"
        "  0 Source a\n"
        "  1 Stop b (0:0)\n"
        "  2 fetch b:0 (1:0)\n");
}

TEST_CASE("a tensor is sent once to a device, however many readers it has there") {
  CHECK(cut_text("a = Source() shape=[2, -1] on \"/job:a\"\n"
                 "b = Stop(a) on \"/job:b\"\n"
                 "c = Mul(a, a) on \"/job:b\"\n"
                 "d = Add(b, c) on \"/job:b\"\n",
                 {"d", "d"}) ==
        "partition /job:me\n"
        "  0 receive 1\n"
        "  1 fetch d:0 (0:0)\n"
        "  2 fetch d:0 (0:0)\n"
        "partition /job:a\n"
        "  0 Source a\n"
        "  1 send 0 (0:0)\n"
        "partition /job:b\n"
        "  0 receive 0\n"
        "  1 Stop b (0:0)\n"
        "  2 Mul c (0:0, 0:0)\n"
        "  3 Add d (1:0, 2:0)\n"
        "  4 send 1 (3:0)\n"
        "edge 0 a:0 f32[2, -1] /job:a -> /job:b\n"
        "edge 1 d:0 f32[2, -1] /job:b -> /job:me\n");
}

TEST_CASE("each output of a node and each destination has an edge of its own") {
  const std::string text = cut_text(
      "x = Source() on \"/job:a\"\n"
      "h = Halves(x) on \"/job:a\"\n"
      "b = Add(h, h:1) on \"/job:b\"\n"
      "c = Add(b, h:1) on \"/job:me\"\n",
      {"c"});
  CHECK(text.find("edge 0 h:0 f32[2] /job:a -> /job:b\n"
                  "edge 1 h:1 f32[2] /job:a -> /job:b\n"
                  "edge 2 b:0 f32[2] /job:b -> /job:me\n"
                  "edge 3 h:1 f32[2] /job:a -> /job:me\n") != text.npos);
}

TEST_CASE("a control edge between devices carries an empty tensor, within one it is a number") {
  CHECK(cut_text("a = Source() on \"/job:a\"\n"
                 "s = Sink(a) on \"/job:a\" after a\n"
                 "b = Source() on \"/job:b\" after s\n"
                 "c = Source() on \"/job:b\" after s, b\n",
                 {"c"}) ==
        "partition /job:me\n"
        "  0 receive 1\n"
        "  1 fetch c:0 (0:0)\n"
        "partition /job:a\n"
        "  0 Source a\n"
        "  1 Sink s (0:0, ^0)\n"
        "  2 send 0 (^1)\n"
        "partition /job:b\n"
        "  0 receive 0\n"
        "  1 Source b (^0)\n"
        "  2 Source c (^0, ^1)\n"
        "  3 send 1 (2:0)\n"
        "edge 0 ^s u8[0] /job:a -> /job:b\n"
        "edge 1 c:0 f32[2] /job:b -> /job:me\n");
}

TEST_CASE("a fetched node without outputs is fetched as having run") {
  CHECK(cut_text("a = Source() on \"/job:a\"\ns = Sink(a) on \"/job:a\"\n", {"s"}) ==
        "partition /job:me\n"
        "  0 receive 0\n"
        "  1 fetch s:0 (^0)\n"
        "partition /job:a\n"
        "  0 Source a\n"
        "  1 Sink s (0:0)\n"
        "  2 send 0 (^1)\n"
        "edge 0 ^s u8[0] /job:a -> /job:me\n");
}

TEST_CASE("feeds enter at the client, cut the graph above them, and are sent like any tensor") {
  CHECK(cut_text("a = Source() on \"/job:a\"\n"
                 "b = Stop(a) on \"/job:a\"\n"
                 "c = Mul(b, b) on \"/job:b\"\n",
                 {"c", "b"}, {"b"}) ==
        "partition /job:me\n"
        "  0 feed b:0\n"
        "  1 send 0 (0:0)\n"
        "  2 receive 1\n"
        "  3 fetch c:0 (2:0)\n"
        "  4 fetch b:0 (0:0)\n"
        "partition /job:b\n"
        "  0 receive 0\n"
        "  1 Mul c (0:0, 0:0)\n"
        "  2 send 1 (1:0)\n"
        "edge 0 b:0 f32[2] /job:me -> /job:b\n"
        "edge 1 c:0 f32[2] /job:b -> /job:me\n");
}

TEST_CASE("a node with one output fed still runs for the other") {
  CHECK(cut_text("x = Source()\nh = Halves(x)\nc = Add(h, h:1)\n", {"c"}, {"h"}) ==
        "partition /job:me\n"
        "  0 feed h:0\n"
        "  1 Source x\n"
        "  2 Halves h (1:0)\n"
        "  3 Add c (0:0, 2:1)\n"
        "  4 fetch c:0 (3:0)\n");
}

TEST_CASE(
    "a node whose outputs are all fed does not run, and control edges from it are satisfied") {
  CHECK(cut_text("x = Source()\ny = Source() after x\n", {"y"}, {"x"}) ==
        "partition /job:me\n"
        "  0 feed x:0\n"
        "  1 Source y\n"
        "  2 fetch y:0 (1:0)\n");
}

TEST_CASE("nodes are numbered depth first, sends before other readers") {
  CHECK(cut_text("a = Source() on \"/job:a\"\n"
                 "b = Source() on \"/job:a\"\n"
                 "a1 = Stop(a) on \"/job:a\"\n"
                 "b1 = Stop(b) on \"/job:a\"\n"
                 "a2 = Stop(a1) on \"/job:a\"\n"
                 "c = Add(a2, b1) on \"/job:a\"\n"
                 "r = Add(a, c)\n",
                 {"r"})
            .find("partition /job:a\n"
                  "  0 Source a\n"
                  "  1 send 0 (0:0)\n"
                  "  2 Stop a1 (0:0)\n"
                  "  3 Stop a2 (2:0)\n"
                  "  4 Source b\n"
                  "  5 Stop b1 (4:0)\n"
                  "  6 Add c (3:0, 5:0)\n"
                  "  7 send 1 (6:0)\n") != std::string::npos);
}

TEST_CASE("random graphs fire in the order of their numbers, and their cut is consistent") {
  uint32_t state = 1;
  const auto draw = [&](uint32_t n) {
    return (state = state * 1664525u + 1013904223u) / 65536u % n;
  };
  for (int round = 0; round < 100; ++round) {
    CAPTURE(round);
    Graph graph(toy_ops());
    std::vector<Output> outputs = {source(graph, "x"), source(graph, "y")};
    for (int i = 0; i < 40; ++i) {
      const auto scope = graph.scope(
          {.device = "/job:d" + std::to_string(draw(3)),
           .control_inputs = {outputs[draw(static_cast<uint32_t>(outputs.size()))].node}});
      outputs.push_back(apply(graph, "Add",
                              {outputs[draw(static_cast<uint32_t>(outputs.size()))],
                               outputs[draw(static_cast<uint32_t>(outputs.size()))]}));
    }
    const auto partitions =
        cut(graph, {outputs.back().name(), outputs[20].name()}, {outputs[5].name()});
    CHECK(to_text(graph, partitions) ==
          to_text(graph,
                  cut(graph, {outputs.back().name(), outputs[20].name()}, {outputs[5].name()})));
    std::map<int32_t, std::string> sends, receives;
    size_t ops = 0;
    for (const Partition& p : partitions) {
      const std::vector<int32_t> order = firing_order(p.nodes);
      CHECK(std::is_sorted(order.begin(), order.end()));
      std::vector<int32_t> fired = fire(p);
      CHECK(fired.size() == p.nodes.size());
      std::erase_if(fired, [&](int32_t i) { return p.nodes[i].kind == PartKind::fetch; });
      CHECK(std::is_sorted(fired.begin(), fired.end()));
      for (const PartNode& node : p.nodes) {
        ops += node.kind == PartKind::op;
        if (node.kind == PartKind::send) CHECK(sends.emplace(node.edge, p.device).second);
        if (node.kind == PartKind::receive) CHECK(receives.emplace(node.edge, p.device).second);
      }
    }
    CHECK(ops == prune(graph, {outputs.back(), outputs[20]}, {outputs[5]}).size());
    for (const Partition& p : partitions)
      for (const Edge& edge : p.edges) {
        CHECK(sends[edge.id] == edge.source);
        CHECK(receives[edge.id] == edge.destination);
        CHECK((p.device == edge.source || p.device == edge.destination));
      }
    CHECK(sends.size() == receives.size());
  }
}

TEST_CASE("of the readers of a node that with the shortest way to the end fires first if asked") {
  // 0 -> 1 -> 2 -> 6, 0 -> 3, 0 -> 4 (a send), 0 -> 5 -> 6
  const auto op = [](std::vector<PartInput> inputs) {
    return PartNode{.kind = PartKind::op, .inputs = std::move(inputs)};
  };
  const std::vector<PartNode> nodes = {op({}),
                                       op({{0, 0}}),
                                       op({{1, 0}}),
                                       op({{0, 0}}),
                                       {.kind = PartKind::send, .inputs = {{0, 0}}},
                                       op({{0, 0}}),
                                       op({{2, 0}, {5, 0}})};
  CHECK(firing_order(nodes) == std::vector<int32_t>{0, 4, 1, 2, 3, 5, 6});
  CHECK(firing_order(nodes, FireFirst::shortest) == std::vector<int32_t>{0, 4, 3, 5, 1, 2, 6});
  // Late nodes fire after the other readers: 3 and its readers, but not the send.
  CHECK(firing_order(nodes, FireFirst::shortest, {false, false, false, true, true, false, false}) ==
        std::vector<int32_t>{0, 4, 5, 1, 2, 6, 3});
}

TEST_CASE("a cycle among partition nodes is a bug and is said to be one") {
  CHECK_THROWS_AS(firing_order({{.kind = PartKind::op, .inputs = {{1, 0}}},
                                {.kind = PartKind::op, .inputs = {{0, 0}}}}),
                  InternalError);
}

TEST_CASE("wrong fetches and feeds are refused") {
  const auto graph =
      graph_from_text("troupe graph 1\nx = Source() at \"train.cpp\":1\ns = Sink(x)\n", toy_ops());
  Graph other(toy_ops());
  const Output x = graph->output("x"), s = graph->output("s"), foreign = source(other, "y");
  const auto refused = [&](std::vector<Output> fetches, std::vector<Output> feeds) {
    return error_of([&] { prune(*graph, fetches, feeds); });
  };
  CHECK(refused({Output()}, {}) == "fetch 0 is an undefined Output; pass the result of an op");
  CHECK(refused({x, foreign}, {}) == "fetch 1 (y) is of another graph than the session's");
  CHECK(refused({Output{graph.get(), 0, 1}}, {}) ==
        "fetch 0 is output 1 of the Source node x made at train.cpp:1, which has 1");
  CHECK(refused({Output{graph.get(), 5, 0}}, {}) ==
        "fetch 0 names node number 5, but the graph has 2 nodes");
  CHECK(refused({x}, {s}) == "feed 0 is the Sink node s, which has no outputs to feed");
  CHECK(refused({x}, {x, x}) == "feed 1 (x) is given twice");
}

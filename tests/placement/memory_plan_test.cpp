// Lifetimes, values made in place, the peak, and offsets in one block, for graphs whose figures can
// be counted by hand.
#include "placement/memory_plan.hpp"

#include <random>

#include "graph/prune.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/graph.hpp"
#include "troupe/op.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/control_flow.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {
namespace {

constexpr int64_t kRows = 1'000, kBytes = 4 * kRows;

MemoryPlan plan_of(const Graph& graph, const std::vector<Output>& fetches,
                   const std::vector<Output>& feeds) {
  const std::vector<MemoryPlan> plans = explain_memory(graph, fetches, feeds);
  REQUIRE(plans.size() == 1);
  return plans[0];
}

constexpr const char* kHere = "/job:local/task:0/device:cpu:0";

Partition part_of(const Graph& graph, const std::vector<Output>& fetches,
                  const std::vector<Output>& feeds) {
  std::map<int32_t, std::string> device_of;
  for (int32_t id : prune(graph, fetches, feeds)) device_of[id] = kHere;
  std::vector<Partition> parts = partition(graph, fetches, feeds, device_of, kHere);
  REQUIRE(parts.size() == 1);
  return std::move(parts[0]);
}

// Large images with a small parameter and their means; and a product with a large matrix, whose
// gradient is scaled before its push.
struct TrainedGraph {
  Graph graph;
  Output x = placeholder(graph, DType::f32, {16, 1024, 64}, "x");  // 4 MiB
  Output p = parameter("p", fill(graph, {64}, 1)), w = parameter("w", fill(graph, {1024, 512}, 1));
  std::string half_gradient;
  Partition part;
  TrainedGraph() {
    const Output h = tanh(multiply(tanh(multiply(x, p)), p));
    const Output loss = reduce_sum(square(matmul(reduce_mean(h, {.axes = {2}}), w)));
    const std::vector<Output> slopes = gradients({loss}, {p, w});
    const Output half = multiply(slopes[1], fill(graph, {}, 0.5));
    half_gradient = half.name();
    const Output update = apply_gradients({{p, slopes[0]}, {w, half}}, sgd(0.1));
    part = part_of(graph, {loss, update}, {x});
  }
};

}  // namespace

TEST_CASE("a value lives from its node to its last reader, and a view as long as what it shows") {
  Graph g;
  const Output x = placeholder(g, DType::f32, {kRows}, "x");
  const Output a = cumsum(x), b = cumsum(a), shown = reshape(a, {10, 100});
  const Output c = cumsum(b), d = cumsum(c);
  const Output y = concat({reshape(d, {10, 100}), shown}, 0);
  const MemoryPlan plan = plan_of(g, {y}, {x});
  CHECK(plan.device == "/job:local/task:0/device:cpu:0");
  CHECK(plan.values == 3);                // a, y, and b, which c and d overwrite
  CHECK(plan.naive_bytes == 6 * kBytes);  // a, b, c, d, and y, which is twice as large
  CHECK(plan.peak_bytes == 4 * kBytes);   // a, d and y
  CHECK(plan.peak_at == y.name());
  CHECK(plan.arena_bytes >= plan.peak_bytes);
  CHECK(plan.arena_bytes <= plan.peak_bytes + 3 * 64);
  CHECK(plan.in_place == 2);
  REQUIRE(plan.largest.size() == 3);
  CHECK(plan.largest[0].name == y.name() + ":0");
  CHECK(plan.largest[0].bytes == 2 * kBytes);
  CHECK(plan.largest[1].name == a.name() + ":0");
  CHECK(plan.largest[1].last == y.name());
  const std::string text = to_text(plan);
  has(text, "16000 bytes at most, at Concat");
  has(text, "  4000 bytes: Cumsum:0 f32[1000], until Concat");
}

TEST_CASE("values that no memory could hold do not wrap the sums of a plan around") {
  Graph g;
  const Output n = placeholder(g, DType::f64, {}, "n");
  const Output a = broadcast_to(n, {int64_t{1} << 59}), b = cumsum(a);  // 2^62 bytes each
  const MemoryPlan plan = plan_of(g, {a, b}, {n});
  CHECK(plan.peak_bytes > int64_t{1} << 42);
  CHECK(plan.naive_bytes >= plan.peak_bytes);
  CHECK(plan.arena_bytes >= plan.peak_bytes);
}

TEST_CASE("a node that may write over its input does so if nobody else reads it") {
  const auto in_place = [](bool read_twice) {
    Graph g;
    const Output x = placeholder(g, DType::f32, {kRows}, "x");
    const Output a = cumsum(x), b = relu(a);
    const Output y = concat({cumsum(b), read_twice ? a : x}, 0);
    const MemoryPlan plan = plan_of(g, {y}, {x});
    CHECK(plan.naive_bytes == 5 * kBytes);
    CHECK(plan.values == 4 - plan.in_place);
    return plan.in_place;
  };
  REQUIRE(builtin_ops()->get("Relu").in_place);
  CHECK(in_place(false) == 2);  // relu over a, and cumsum over the result of relu
  CHECK(in_place(true) == 1);
}

TEST_CASE("what ends soon fires first where less memory is in use at once then") {
  const auto peak = [](int64_t rows) {
    Graph g;
    Output x = placeholder(g, DType::f32, {rows}, "x");
    std::vector<Output> row = {x}, fetches;
    for (int i = 0; i < 8; ++i) row.push_back(cumsum(cumsum(row.back())));
    fetches.push_back(row.back());
    for (const Output& value : row) fetches.push_back(reduce_max(value));
    return plan_of(g, fetches, {x}).peak_bytes / (4 * rows);
  };
  CHECK(peak(kRows) == 8);        // the inputs of all maxima: too small to reorder
  CHECK(peak(100 * kRows) == 1);  // each maximum before a cumsum overwrites its input
}

TEST_CASE("what ends soon does not fire first where what it leaves would be in the way") {
  constexpr int64_t kMany = 100 * kRows;
  Graph g;
  const Output x = placeholder(g, DType::f32, {kMany}, "x");
  const Output a = cumsum(x);
  const Output longer = reduce_max(sin(cumsum(cumsum(a)))), soon = concat({a, a}, 0);
  const MemoryPlan plan = plan_of(g, {longer, soon}, {x});
  CHECK(plan.peak_bytes / (4 * kMany) == 3);
}

TEST_CASE("what is pushed and larger than what it is made of leaves more, and nothing before it") {
  const TrainedGraph model;
  const std::vector<bool> leaving = leaves_more(model.graph, model.part);
  const auto leaves = [&](const std::string& name) {
    for (size_t p = 0; p < leaving.size(); ++p)
      if (const PartNode& part = model.part.nodes[p];
          part.kind == PartKind::op && model.graph.node(part.node).name == name)
        return bool{leaving[p]};
    FAIL("no node ", name);
    return false;
  };
  for (size_t p = 0; p < leaving.size(); ++p) {
    const PartNode& part = model.part.nodes[p];
    if (!leaving[p]) continue;
    REQUIRE(part.kind == PartKind::op);
    const Node& node = model.graph.node(part.node);
    CHECK(node.outputs.at(0).shape == Shape{1024, 512});
  }
  CHECK(std::count(leaving.begin(), leaving.end(), true) == 2);  // both nodes of the gradient of w
  CHECK(leaves(model.half_gradient));
}

TEST_CASE("a node has its turn as soon as what it makes has room beside all until its place") {
  const TrainedGraph model;
  const std::vector<PartNode>& parts = model.part.nodes;
  const std::vector<int32_t> turns = earliest_firings(model.graph, model.part);
  REQUIRE(turns.size() == parts.size());
  std::vector<int64_t> live(parts.size());
  for (const Lifetime& piece : lifetimes(model.graph, model.part).pieces) {
    const PartNode& last = parts[static_cast<size_t>(piece.end)];
    const bool kept = last.kind == PartKind::op && model.graph.node(last.node).outputs.empty();
    const size_t end = kept ? parts.size() - 1 : static_cast<size_t>(piece.end);
    for (auto p = static_cast<size_t>(piece.begin); p <= end; ++p) live[p] += piece.bytes;
  }
  const int64_t peak = *std::max_element(live.begin(), live.end());
  CHECK(peak == peak_bytes(model.graph, model.part));
  int wait = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    if (turns[p] == 0) continue;
    ++wait;
    CAPTURE(model.graph.node(parts[p].node).name);
    int64_t made = 0;
    for (const TensorType& type : model.graph.node(parts[p].node).outputs)
      made += type.shape.size() * size_of(type.dtype);
    const auto turn = static_cast<size_t>(turns[p]);
    REQUIRE(turn <= p);
    CHECK(live[turn - 1] + made > peak);
    for (size_t before = turn; before < p; ++before) CHECK(live[before] + made <= peak);
  }
  CHECK(wait >= 3);
}

TEST_CASE("nodes of which all make little have no turns to wait for") {
  Graph g;
  const Output x = placeholder(g, DType::f32, {kRows}, "x");
  Output y = x;
  for (int i = 0; i < 8; ++i) y = concat({cumsum(y), x}, 0);
  CHECK(earliest_firings(g, part_of(g, {y}, {x})).empty());
}

TEST_CASE("pieces of a plan that live at the same time do not meet in the block") {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<Lifetime> pieces;
    for (int i = 0; i < 60; ++i) {
      const auto begin = static_cast<int32_t>(random() % 40);
      pieces.push_back({i, 0, begin, begin + static_cast<int32_t>(random() % 12),
                        static_cast<int64_t>(random() % 5'000)});
    }
    std::vector<int64_t> places;
    const int64_t all = place_in_arena(pieces, &places);
    for (size_t i = 0; i < pieces.size(); ++i) {
      CHECK(places[i] % 64 == 0);
      CHECK(places[i] + pieces[i].bytes <= all);
      for (size_t j = 0; j < i; ++j) {
        const bool together = pieces[i].begin <= pieces[j].end && pieces[j].begin <= pieces[i].end;
        const bool apart =
            places[i] + pieces[i].bytes <= places[j] || places[j] + pieces[j].bytes <= places[i];
        REQUIRE((!together || apart));
      }
    }
  }
}

TEST_CASE("the plan of a graph that computes again is smaller, and counts what nobody can know") {
  const auto plan = [](bool again, int64_t rows) {
    Graph g;
    const Output x = placeholder(g, DType::f32, {rows}, "x");
    Output y = x;
    for (int block = 0; block < 6; ++block) {
      const auto scope = g.scope({.recompute = again});
      for (int k = 0; k < 6; ++k) y = sin(cumsum(y));
    }
    return plan_of(g, {gradients({reduce_sum(y)}, {x})[0]}, {x});
  };
  CHECK(plan(true, kRows).peak_bytes * 2 < plan(false, kRows).peak_bytes);
  CHECK(plan(true, -1).unknown > 72);
}

TEST_CASE("each device has a plan, and a loop counts one iteration") {
  Graph g;
  const Output x = placeholder(g, DType::f32, {kRows}, "x");
  Output y;
  {
    const auto there = g.scope({.device = "/job:worker/task:1/device:cpu:0"});
    y = while_loop(
        [&](const std::vector<Output>& v) { return less(v[0], fill(g, {}, 9, DType::i64)); },
        [&](const std::vector<Output>& v) {
          return std::vector<Output>{v[0] + 1, cumsum(cumsum(v[1]))};
        },
        {fill(g, {}, 0, DType::i64), cumsum(x)})[1];
  }
  const std::vector<MemoryPlan> plans = explain_memory(g, {y}, {x});
  REQUIRE(plans.size() == 2);
  CHECK(plans[1].device == "/job:worker/task:1/device:cpu:0");
  CHECK(plans[1].peak_bytes >= 3 * kBytes);
  CHECK(plans[1].peak_bytes <= 6 * kBytes);
  CHECK(refusal_of([&] { explain_memory(g, {Output()}); }).code == Errc::invalid_argument);
}

}  // namespace troupe

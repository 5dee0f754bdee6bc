// Lifetimes, what is made in place, the most at once, and places in one block: of graphs whose
// figures can be counted by hand.
#include "placement/memory_plan.hpp"

#include <doctest/doctest.h>

#include <random>

#include "tests/support/refusal.hpp"
#include "troupe/graph/recompute.hpp"
#include "troupe/op.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/control_flow.hpp"

namespace troupe {
namespace {

constexpr int64_t kRows = 1'000, kBytes = 4 * kRows;

MemoryPlan plan_of(const Graph& graph, const std::vector<Output>& fetches,
                   const std::vector<Output>& feeds) {
  const std::vector<MemoryPlan> plans = explain_memory(graph, fetches, feeds);
  REQUIRE(plans.size() == 1);
  return plans[0];
}

}  // namespace

TEST_CASE("a value lives from its node to its last reader, and a view as long as what it shows") {
  Graph g;
  const Output x = placeholder(g, DType::f32, {kRows}, "x");
  const Output a = cumsum(x), b = cumsum(a), shown = reshape(a, {10, 100});
  const Output c = cumsum(b), d = cumsum(c);
  const Output y = concat({reshape(d, {10, 100}), shown}, 0);
  const MemoryPlan plan = plan_of(g, {y}, {x});
  CHECK(plan.device == "/job:local/task:0/device:cpu:0");
  CHECK(plan.values == 3);                // a, y, and b, over which c and d are made
  CHECK(plan.naive_bytes == 6 * kBytes);  // a, b, c, d, and y of twice their size
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
  CHECK(in_place(false) == 2);  // relu over a, and the sums over what relu made
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
  CHECK(peak(kRows) == 8);        // all that the maxima are of: not worth a look
  CHECK(peak(100 * kRows) == 1);  // each maximum before sums go over what it is of
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

// Recurrent layers and attention on several lanes: they are cut by their shapes alone, so a step
// has the same bits with one thread and with several.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "troupe/ops.hpp"
#include "troupe/ops/networks.hpp"
#include "troupe/session.hpp"

namespace troupe {
namespace {

Output waves(Graph& graph, const Shape& shape, double seed, double size = 1) {
  Tensor out = Tensor::empty(DType::f32, shape);
  for (int64_t i = 0; i < out.size(); ++i)
    out.mutable_data<float>()[i] =
        static_cast<float>(size * std::sin(static_cast<double>(i) * 0.7 + seed * 10));
  return constant(graph, out);
}

// With their gradients, of sizes that are cut into jobs, some rows over.
std::vector<Output> layers(Graph& g) {
  const Output x = waves(g, {6, 37, 24}, 0.1), h = waves(g, {37, 70}, 0.2);
  Tensor lengths = Tensor::empty(DType::i64, {37});
  for (int64_t i = 0; i < 37; ++i) lengths.mutable_data<int64_t>()[i] = i % 7;
  const Output given = constant(g, lengths);
  const Output w = waves(g, {24, 280}, 0.4, 0.2), u = waves(g, {70, 280}, 0.5, 0.2);
  const Output w3 = waves(g, {24, 210}, 0.7, 0.2), u3 = waves(g, {70, 210}, 0.8, 0.2);
  const Output b = waves(g, {280}, 0.6), b3 = waves(g, {210}, 0.9);
  const Lstm one = lstm(x, h, h, w, u, b, {.lengths = given, .reverse = true});
  const Gru two = gru(x, h, w3, u3, b3, b3);
  const Gru three = gru(x, h, w3, u3, b3, b3, {.lengths = given, .reset_after = false});
  const Output q = waves(g, {2, 5, 70, 24}, 0.1), k = waves(g, {2, 5, 70, 24}, 0.2),
               v = waves(g, {2, 5, 70, 24}, 0.3);
  const Output seen = scaled_dot_product_attention(q, k, v, {.causal = true});
  std::vector<Output> all = {one.y, one.h, one.c, two.y, two.h, three.y, three.h, seen};
  for (const Output& slope : gradients(all, {x, h, w, u, b, w3, u3, b3, q, k, v}))
    all.push_back(slope);
  return all;
}

}  // namespace

TEST_CASE("recurrent layers and attention have the same bits with one thread and with several") {
  std::vector<Tensor> expected;
  for (const int threads : {1, 2, 4}) {
    CAPTURE(threads);
    Graph graph;
    const std::vector<Output> outputs = layers(graph);
    Session session = Session::local(graph, {.threads = threads});
    for (int round = 0; round < 4; ++round) {
      const std::vector<Tensor> got = session.run(outputs);
      if (expected.empty()) expected = got;
      for (size_t i = 0; i < got.size(); ++i) {
        CAPTURE(i);
        CHECK(same_bits(got[i], expected[i]));
      }
    }
  }
}

}  // namespace troupe

// A step that has run before takes nothing from the system: neither the pool of its device nor the
// heap grows.
#include <doctest/doctest.h>
#include <malloc.h>

#include "troupe/ops.hpp"
#include "troupe/ops/control_flow.hpp"
#include "troupe/ops/networks.hpp"
#include "troupe/session.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {
namespace {

// The bytes that malloc has from the system, in all its arenas.
size_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.arena + info.hblkhd;
}

// Trains on one batch: neither grows after the first steps, and the loss goes below `low`.
void check_warm(Graph& graph, Output loss, const Optimizer& optimizer,
                const std::vector<Output>& fed, const std::vector<Tensor>& feeds, float low) {
  const Output train = minimize(loss, optimizer);
  Session session = Session::local(graph, {.threads = 1});
  const Callable step = session.prepare({loss, train}, fed);
  for (int i = 0; i < 20; ++i) step(feeds);
  const int64_t pool = session.device_states().at(0).reserved_bytes;
  const size_t heap = heap_bytes();
  float last = 0;
  for (int i = 0; i < 200; ++i) last = step(feeds).at(0).item<float>();
  CHECK(session.device_states().at(0).reserved_bytes == pool);
  CHECK(heap_bytes() == heap);
  CHECK(last < low);  // it did train
}

TEST_CASE("training steps after the first ones take no memory from the system") {
  Graph graph;
  const Output images = placeholder(graph, DType::f32, {32, 8, 8, 3}),
               labels = placeholder(graph, DType::i32, {32});
  const Output filter = parameter("filter", truncated_normal(graph, {3, 3, 3, 16}, 0, 0.1)),
               bias = parameter("bias", fill(graph, {16}, 0)),
               weights = parameter("weights", truncated_normal(graph, {256, 10}, 0, 0.1));
  const Output pooled = max_pool2d(relu(bias_add(conv2d(images, filter), bias)));
  const Output logits = matmul(reshape(pooled, {32, 256}), weights);
  const Output loss = reduce_mean(softmax_cross_entropy(logits, labels));
  Tensor pixels = Tensor::zeros(DType::f32, {32, 8, 8, 3});
  for (int64_t i = 0; i < pixels.size(); ++i)
    pixels.mutable_data<float>()[i] = static_cast<float>(i % 7) / 7;
  check_warm(graph, loss, adam(0.01), {images, labels}, {pixels, Tensor::zeros(DType::i32, {32})},
             0.1f);
}

TEST_CASE("nor do those with rows of an embedding, a recurrent layer and a loop") {
  Graph graph;
  const Output words = placeholder(graph, DType::i32, {5, 8}),
               labels = placeholder(graph, DType::i32, {8});
  const Output table = parameter("table", truncated_normal(graph, {1000, 16}, 0, 0.1));
  const Output w_x = parameter("w_x", truncated_normal(graph, {16, 48}, 0, 0.2)),
               w_h = parameter("w_h", truncated_normal(graph, {12, 48}, 0, 0.2)),
               bias = parameter("bias", fill(graph, {48}, 0)),
               weights = parameter("weights", truncated_normal(graph, {12, 12}, 0, 0.3));
  const Output zero = fill(graph, {8, 12}, 0);
  const Output read = lstm(embedding_lookup(table, words), zero, zero, w_x, w_h, bias).h;
  const std::vector<Output> looped = while_loop(
      [](const std::vector<Output>& v) { return less(v[0], fill(*v[0].graph, {}, 3, DType::i64)); },
      [&](const std::vector<Output>& v) {
        return std::vector<Output>{v[0] + 1, tanh(matmul(v[1], weights))};
      },
      {fill(graph, {}, 0, DType::i64), read});
  const Output loss = reduce_mean(softmax_cross_entropy(looped[1], labels));
  Tensor ids = Tensor::zeros(DType::i32, {5, 8}), wanted = Tensor::zeros(DType::i32, {8});
  for (int32_t i = 0; i < 40; ++i) ids.mutable_data<int32_t>()[i] = i * 23;
  for (int32_t i = 0; i < 8; ++i) wanted.mutable_data<int32_t>()[i] = i % 3;
  check_warm(graph, loss, momentum(0.1), {words, labels}, {ids, wanted}, 1.5f);
}

}  // namespace
}  // namespace troupe

// A step that has run before takes nothing from the system: neither the pool of its device nor the
// heap grows.
#include <doctest/doctest.h>
#include <malloc.h>

#include "troupe/ops.hpp"
#include "troupe/session.hpp"
#include "troupe/train.hpp"

namespace troupe {
namespace {

// What malloc has from the system, in all its arenas.
size_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.arena + info.hblkhd;
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
  const Output train = minimize(loss, adam(0.01));
  Session session = Session::local(graph, {.threads = 1});
  const Callable step = session.prepare({loss, train}, {images, labels});
  Tensor pixels = Tensor::zeros(DType::f32, {32, 8, 8, 3});
  for (int64_t i = 0; i < pixels.size(); ++i)
    pixels.mutable_data<float>()[i] = static_cast<float>(i % 7) / 7;
  const std::vector<Tensor> feeds = {pixels, Tensor::zeros(DType::i32, {32})};
  for (int i = 0; i < 20; ++i) step(feeds);
  const int64_t pool = session.device_states().at(0).reserved_bytes;
  const size_t heap = heap_bytes();
  float last = 0;
  for (int i = 0; i < 200; ++i) last = step(feeds).at(0).item<float>();
  CHECK(session.device_states().at(0).reserved_bytes == pool);
  CHECK(heap_bytes() == heap);
  CHECK(last < 0.1f);  // it did train
}

}  // namespace
}  // namespace troupe

// Towers: small models that train one set of parameters, one for each replica.
#pragma once

#include <vector>

#include "troupe/training.hpp"

namespace troupe {

// Eight rows of four numbers, and their labels of three classes, for the step of a replica.
inline std::vector<Tensor> small_batch(int64_t replica, int64_t step) {
  Tensor images = Tensor::empty(DType::f32, {8, 4});
  Tensor labels = Tensor::empty(DType::i64, {8});
  for (int64_t i = 0; i < 32; ++i)
    images.mutable_data<float>()[i] =
        static_cast<float>((i * 7 + step * 3 + replica * 5) % 11) * 0.1F;
  for (int64_t i = 0; i < 8; ++i) labels.mutable_data<int64_t>()[i] = (i + step + replica) % 3;
  return {images, labels};
}

// The towers of `replicas`, a part of all. Nodes have the same names in any process that
// builds them, so they draw the same random numbers.
struct Towers {
  Graph graph;
  std::vector<Tower> towers;
  explicit Towers(const std::vector<int64_t>& replicas, const std::string& device = "") {
    const Output w0 = truncated_normal(graph, Shape{4, 3}, 0, 0.5, 11);
    const Output b0 = fill(graph, {3}, 0);
    for (int64_t replica : replicas) {
      const auto scope = graph.scope(
          {.name = detail::concat("tower", replica), .device = device, .replica = replica});
      const Output x = placeholder(graph, DType::f32, {-1, 4}, "x");
      const Output y = placeholder(graph, DType::i64, {-1}, "y");
      const Output h = dropout(x, 0.25, 5);
      const Output logits = bias_add(matmul(h, parameter("w", w0)), parameter("b", b0));
      const Output loss = reduce_mean(softmax_cross_entropy(logits, y));
      towers.push_back(
          {replica, loss, minimize(loss, momentum(0.1, 0.9)), {x, y}, [replica](int64_t s) {
             return small_batch(replica, s);
           }});
    }
  }
};

}  // namespace troupe

// The network of the presets, with a tower per replica on the worker of its number; and the options
// that a seed draws for its training.
#pragma once

#include <iterator>
#include <string>
#include <vector>

#include "chaos/sim_cluster_options.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/parameters.hpp"
#include "troupe/optimizer.hpp"

namespace troupe::sim {

// The data of a step: a pure function of it.
inline std::vector<Tensor> small_batch(int64_t replica, int64_t step, int64_t replicas) {
  Tensor x = Tensor::empty(DType::f32, Shape{5, 4}), y = Tensor::empty(DType::i64, Shape{5});
  Draw draw(static_cast<uint64_t>(step * replicas + replica));
  for (int i = 0; i < 20; ++i)
    x.mutable_data<float>()[i] = static_cast<float>(draw.below(1000)) * 0.001F;
  for (int i = 0; i < 5; ++i) y.mutable_data<int64_t>()[i] = static_cast<int64_t>(draw.below(3));
  return {x, y};
}

inline std::vector<Tower> small_network(Graph& graph, const SimClusterOptions& o,
                                        const std::vector<int32_t>& replicas) {
  std::vector<Tower> towers;
  Optimizer optimizer = sgd(0.1);
  optimizer.kind = o.optimizer;
  const auto relu_next_door = [&](Output x, int32_t replica) {
    const int32_t next = (replica + 1) % o.shape.workers;
    const auto scope = graph.scope({.device = detail::concat("/job:worker/task:", next)});
    return relu(x);
  };
  const Output first1 = truncated_normal(graph, Shape{4, o.hidden}, 0, 0.5, 11);
  const Output first2 = truncated_normal(graph, Shape{o.hidden, 3}, 0, 0.5, 12);
  const Output zeros = fill(graph, Shape{o.hidden}, 0);
  for (const int32_t replica : replicas) {
    auto scope = graph.scope({.name = detail::concat("tower", replica),
                              .device = detail::concat("/job:worker/task:", replica),
                              .replica = replica});
    Tower& t = towers.emplace_back();
    t.replica = replica;
    const Output images = placeholder(graph, DType::f32, {-1, 4}, "images");
    const Output labels = placeholder(graph, DType::i64, {-1}, "labels");
    const Output sum = bias_add(matmul(images, parameter("w1", first1)), parameter("b1", zeros));
    const Output h = o.edges ? relu_next_door(sum, replica) : relu(sum);
    t.loss = reduce_mean(softmax_cross_entropy(matmul(h, parameter("w2", first2)), labels));
    t.update = minimize(t.loss, optimizer);
    t.feeds = {images, labels};
    t.batch = [replica, all = o.replicas](int64_t step) { return small_batch(replica, step, all); };
  }
  return towers;
}

// The same data, and ids of rows: some of 40, of which each is now and then forgotten.
inline std::vector<Tensor> table_batch(int64_t replica, int64_t step, int64_t replicas) {
  std::vector<Tensor> out = small_batch(replica, step, replicas);
  Tensor ids = Tensor::empty(DType::i64, Shape{5});
  Draw draw(static_cast<uint64_t>(1'000'000 + step * replicas + replica));
  for (int i = 0; i < 5; ++i)
    ids.mutable_data<int64_t>()[i] = static_cast<int64_t>(draw.below(40)) * 25'000'000'003;
  out.push_back(ids);
  return out;
}

// A network that reads a table of 10^12 rows, which are made on first touch. `o.hidden`: chooses
// how rows are forgotten.
inline std::vector<Tower> table_network(Graph& graph, const SimClusterOptions& o,
                                        const std::vector<int32_t>& replicas) {
  std::vector<Tower> towers;
  Optimizer optimizer = sgd(0.1);
  optimizer.kind = o.optimizer;
  const Output first = truncated_normal(graph, Shape{4, 3}, 0, 0.5, 12);
  TableOptions options{.first = {FirstRows::Kind::uniform, -0.5, 0.5, 11}};
  (o.hidden % 2 == 0 ? options.forget_after : options.rows_max) = o.hidden % 2 == 0 ? 2 : 64;
  for (const int32_t replica : replicas) {
    auto scope = graph.scope({.name = detail::concat("tower", replica),
                              .device = detail::concat("/job:worker/task:", replica),
                              .replica = replica});
    Tower& t = towers.emplace_back();
    t.replica = replica;
    const Output images = placeholder(graph, DType::f32, {-1, 4}, "images");
    const Output labels = placeholder(graph, DType::i64, {-1}, "labels");
    const Output ids = placeholder(graph, DType::i64, {-1}, "ids");
    const Output rows = gather(table_parameter(graph, "emb", {1'000'000'000'000, 4}, options), ids);
    const Output h = matmul(images + rows, parameter("w", first));
    t.loss = reduce_mean(softmax_cross_entropy(h, labels));
    t.update = minimize(t.loss, optimizer);
    t.feeds = {images, labels, ids};
    t.batch = [replica, all = o.replicas](int64_t step) { return table_batch(replica, step, all); };
  }
  return towers;
}

inline SimClusterOptions draw_cluster_options(Draw& draw) {
  SimClusterOptions o;
  o.build = small_network;
  o.steps = draw.between(3, 5);
  o.hidden = draw.chance(0.2) ? 4200 : 6;
  const char* const optimizers[] = {"sgd",     "momentum", "nesterov", "adagrad", "adadelta",
                                    "rmsprop", "adam",     "adamw",    "ftrl"};
  o.optimizer = optimizers[draw.below(std::size(optimizers))];
  return o;
}

}  // namespace troupe::sim

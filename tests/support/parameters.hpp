// Values for the parameters of a graph that is evaluated without shards.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <string>

#include "tests/support/evaluate.hpp"
#include "troupe/nn.hpp"
#include "troupe/ops.hpp"

namespace troupe {

// sin(frequency * i + phase), f64.
inline Tensor sines(const Shape& shape, double frequency, double phase) {
  Tensor out = Tensor::empty(DType::f64, shape);
  for (int64_t i = 0; i < out.size(); ++i)
    out.mutable_data<double>()[i] = std::sin(frequency * static_cast<double>(i) + phase);
  return out;
}

// Feeds for all Parameter nodes: the entry of `values` for the node's name, else its initial value.
inline FedValues feed_parameters(Graph& graph, const std::map<std::string, Tensor>& values = {}) {
  FedValues out;
  size_t used = 0;
  for (const auto& node : graph.nodes()) {
    if (node->op->name != "Parameter") continue;
    const auto& name = node->attr<std::string>("parameter");
    const auto it = values.find(name);
    used += it != values.end();
    out[{&graph, node->id, 0}] = it != values.end()
                                     ? it->second
                                     : evaluate(graph.output(node->attr<std::string>("initial")));
  }
  CHECK(used >= values.size());  // a misspelt name would feed nothing
  return out;
}

using Names = std::vector<std::string>;
inline Names parameter_names(const nn::Model& model) {
  Names out;
  for (const Output& p : model.parameters())
    out.push_back(p.graph->node(p.node).attr<std::string>("parameter"));
  return out;
}

inline void check_close(const Tensor& got, const Shape& shape, const std::vector<double>& wanted,
                        double tolerance = 1e-12) {
  CHECK(got.shape() == shape);
  REQUIRE(got.size() == static_cast<int64_t>(wanted.size()));
  for (size_t i = 0; i < wanted.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(got.values<double>()[i] - wanted[i]) < tolerance);
  }
}

// The same, with a list for each row of the last dimension.
inline void check_rows(const Tensor& got, const Shape& shape,
                       const std::vector<std::vector<double>>& wanted, double tolerance = 1e-12) {
  std::vector<double> all;
  for (const auto& row : wanted) all.insert(all.end(), row.begin(), row.end());
  check_close(got, shape, all, tolerance);
}

}  // namespace troupe

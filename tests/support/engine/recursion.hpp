// Counters and values that tests of functions share.
#pragma once

#include <vector>

#include "troupe/ops.hpp"
#include "troupe/ops/control_flow.hpp"

namespace troupe {

using Values = std::vector<Output>;
inline const TensorType kCount{DType::i64, Shape{}};
inline const TensorType kNumber{DType::f64, Shape{}};

inline Tensor count(int64_t n) { return Tensor::scalar(n); }
inline Tensor number(double x) { return Tensor::scalar(x); }
inline Output whole(Graph& graph, int64_t n) {
  return fill(graph, {}, static_cast<double>(n), DType::i64);
}

}  // namespace troupe

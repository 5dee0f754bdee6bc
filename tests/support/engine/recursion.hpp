// Counters, values and loops that tests of functions and loops share.
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

// v[0] = 0, the others are `first`; while (v[0] < n) v = {v[0] + 1, body(v)...};
template <class Body>
Values counted_loop(const Output& n, Values first, const WhileOptions& options, const Body& body) {
  first.insert(first.begin(), whole(*n.graph, 0));
  return while_loop([&](const Values& v) { return less(v[0], n); },
                    [&](const Values& v) {
                      Values next = body(v);
                      next.insert(next.begin(), v[0] + 1);
                      return next;
                    },
                    first, options);
}

}  // namespace troupe

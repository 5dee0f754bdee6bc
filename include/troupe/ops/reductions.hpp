// Reductions and scans besides those of troupe/ops.hpp. The conventions of troupe/ops.hpp hold for
// these functions.
#pragma once

#include <concepts>
#include <cstddef>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

struct ReduceOptions {
  std::vector<int64_t> axes = {};  // {}: all; negative ones count from the end
  bool keep_dims = false;          // keep the reduced axes, with size 1
};

// The number of an axis. A list of them may stand in place of the options: reduce_mean(x, {1, 2}).
template <class T>
concept AxisNumber = std::integral<T> && !std::same_as<T, bool>;

// For numbers; refuses an empty reduction. All elements that equal the minimum share the gradient.
Output reduce_min(Output x, ReduceOptions options = {}, Origin at = Origin::here());
// For numbers except u8; the product of no elements is 1.
Output reduce_prod(Output x, ReduceOptions options = {}, Origin at = Origin::here());
// For bool: true if any, if all are true; for no elements false and true.
Output reduce_any(Output x, ReduceOptions options = {}, Origin at = Origin::here());
Output reduce_all(Output x, ReduceOptions options = {}, Origin at = Origin::here());
// log(the sum of e^x), for floats; finite for finite x.
Output log_sum_exp(Output x, ReduceOptions options = {}, Origin at = Origin::here());
// Order 1: the sum of |x|; 2: sqrt(the sum of x^2), for floats; INFINITY: the greatest |x|.
Output norm(Output x, double order = 2, ReduceOptions options = {}, Origin at = Origin::here());

// The same over some axes.
template <AxisNumber Number, size_t n>
Output reduce_min(Output x, const Number (&axes)[n], Origin at = Origin::here()) {
  return reduce_min(x, ReduceOptions{{axes, axes + n}}, at);
}
template <AxisNumber Number, size_t n>
Output reduce_prod(Output x, const Number (&axes)[n], Origin at = Origin::here()) {
  return reduce_prod(x, ReduceOptions{{axes, axes + n}}, at);
}
template <AxisNumber Number, size_t n>
Output reduce_any(Output x, const Number (&axes)[n], Origin at = Origin::here()) {
  return reduce_any(x, ReduceOptions{{axes, axes + n}}, at);
}
template <AxisNumber Number, size_t n>
Output reduce_all(Output x, const Number (&axes)[n], Origin at = Origin::here()) {
  return reduce_all(x, ReduceOptions{{axes, axes + n}}, at);
}
template <AxisNumber Number, size_t n>
Output log_sum_exp(Output x, const Number (&axes)[n], Origin at = Origin::here()) {
  return log_sum_exp(x, ReduceOptions{{axes, axes + n}}, at);
}

struct Moments {
  Output mean, variance;  // the mean of (x - mean)^2
};
// For floats, in two passes.
Moments moments(Output x, ReduceOptions options = {}, Origin at = Origin::here());
// The index, i64, of the minimum along the axis; the first of equals.
Output argmin(Output x, int64_t axis = -1, Origin at = Origin::here());

// ---- scans ----

struct ScanOptions {
  int64_t axis = -1;
  bool exclusive = false;  // without the element itself: the first result is that of no elements
  bool reverse = false;    // from the last element to the first
};
// Running sums and products, for numbers except u8.
Output cumsum(Output x, ScanOptions options = {}, Origin at = Origin::here());
Output cumprod(Output x, ScanOptions options = {}, Origin at = Origin::here());

}  // namespace troupe

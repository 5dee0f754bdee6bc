// The functions of troupe/ops/arrays.hpp, composed of other ops.
#include "troupe/ops/arrays.hpp"

#include <algorithm>
#include <numeric>

#include "ops/elementwise/composition.hpp"

namespace troupe {
namespace {

int axis_of(const char* function, Origin at, Output x, int64_t axis) {
  const int ndim = x.shape().ndim();
  if (axis < -ndim || axis >= ndim)
    throw refused(function, at, "axis ", axis, " is not there: ", x.shape(), " has axes from ",
                  -ndim, " to ", ndim - 1);
  return static_cast<int>(axis < 0 ? axis + ndim : axis);
}

// 0, 1, ..., n - 1.
std::vector<int64_t> in_order(int n) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

}  // namespace

// softmax: swaps the axis with the last one, applies softmax, and swaps them back.
Output softmax(Output x, int64_t axis, Origin at) {
  require_defined("softmax", at, {x});
  const int d = axis_of("softmax", at, x, axis), last = x.shape().ndim() - 1;
  if (d == last) return softmax(x, at);
  std::vector<int64_t> order = in_order(last + 1);
  std::swap(order[static_cast<size_t>(d)], order.back());
  return transpose(softmax(transpose(x, order, at), at), order, at);
}

// log_softmax: x - log(the sum of e^x).
Output log_softmax(Output x, int64_t axis, Origin at) {
  require_defined("log_softmax", at, {x});
  const int d = axis_of("log_softmax", at, x, axis);
  return subtract(x, log_sum_exp(x, {.axes = {d}, .keep_dims = true}, at), at);
}

// gather: moves the axis to the front and gathers rows; then moves the dimensions of the indices,
// which are in front now, to the axis's position.
Output gather(Output x, Output indices, int64_t axis, Origin at) {
  require_defined("gather", at, {x, indices});
  const int d = axis_of("gather", at, x, axis);
  if (d == 0) return gather(x, indices, at);
  std::vector<int64_t> to_front = in_order(x.shape().ndim());
  std::rotate(to_front.begin(), to_front.begin() + d, to_front.begin() + d + 1);
  const Output y = gather(transpose(x, to_front, at), indices, at);
  const int moved = indices.shape().ndim();
  std::vector<int64_t> back = in_order(y.shape().ndim());
  std::rotate(back.begin(), back.begin() + moved, back.begin() + moved + d);
  return transpose(y, back, at);
}

std::vector<Output> split_sizes(Output x, std::vector<int64_t> sizes, int64_t axis, Origin at) {
  require_defined("split_sizes", at, {x});
  const int d = axis_of("split_sizes", at, x, axis);
  const int64_t all = x.shape()[d];
  std::string text;
  for (const int64_t one : sizes) text += detail::concat(text.empty() ? "" : ", ", one);
  const auto fail = [&](const auto&... what) {
    return refused("split_sizes", at, what..., "; they are [", text, "] along axis ", d, " of ",
                   x.shape());
  };
  if (all < 0) throw fail("wants to know the size that is split");
  int64_t left = all;
  auto rest = sizes.end();
  for (auto one = sizes.begin(); one != sizes.end(); ++one) {
    if (*one < -1) throw fail("a size is below 0");
    if (*one == -1 && rest != sizes.end()) throw fail("only one size may be -1");
    if (*one == -1)
      rest = one;
    else if (*one > left)
      throw fail("the sizes are more than there is");
    else
      left -= *one;
  }
  if (rest != sizes.end())
    *rest = left;
  else if (left > 0)
    throw fail("the sizes leave ", left, " over");
  std::vector<Output> parts;
  std::vector<int64_t> begin(static_cast<size_t>(x.shape().ndim()), 0), size(begin.size(), -1);
  for (const int64_t one : sizes) {
    size[static_cast<size_t>(d)] = one;
    parts.push_back(slice(x, begin, size, at));
    begin[static_cast<size_t>(d)] += one;
  }
  return parts;
}

}  // namespace troupe

// The order of elements for sorting ops: the place of NaN, and lines along an axis.
#pragma once

#include "ops/support/axes.hpp"
#include "ops/support/node.hpp"

namespace troupe {

// True if a is before b in ascending order. NaN is greater than all numbers, as in ArgMax. Two NaN
// are equal, and so are 0 and -0.
template <class T>
bool rises(T a, T b) {
  return (a < b) | ((a == a) & (b != b));
}

// An element and its original position. Pairs are ordered by value, equal values by `at`. No two
// are equal, so any sorting algorithm gives the same result.
template <class T>
struct Placed {
  T value;
  int64_t at;
  friend bool operator<(const Placed& a, const Placed& b) {
    return rises(a.value, b.value) || (!rises(b.value, a.value) && a.at < b.at);
  }
};

// A tensor as lines along an axis: element j of line (o, i) has index (o * n + j) * inner + i.
// Requires: the tensor is not empty.
struct Lines {
  int64_t outer, n, inner;
  Lines(const Shape& shape, int axis)
      : outer(size_between(shape, 0, axis)),
        n(shape[axis]),
        inner(size_between(shape, axis + 1, shape.ndim())) {}
};

}  // namespace troupe

// What ops that put elements in order share: where NaN stands, and lines along an axis.
#pragma once

#include "ops/support/axes.hpp"
#include "ops/support/node.hpp"

namespace troupe {

// Whether a stands before b in rising order. NaN counts as greater than all numbers, as in ArgMax;
// two of them are equal, and so are 0 and -0.
template <class T>
bool rises(T a, T b) {
  return (a < b) | ((a == a) & (b != b));
}

// An element and where it stood. Pairs are in order by value, those of equal value by `at`: no two
// are equal, so any way to sort gives the same result.
template <class T>
struct Placed {
  T value;
  int64_t at;
  friend bool operator<(const Placed& a, const Placed& b) {
    return rises(a.value, b.value) || (!rises(b.value, a.value) && a.at < b.at);
  }
};

// A tensor as lines along an axis: element j of line (o, i) is number (o * n + j) * inner + i.
// Requires: the tensor has elements.
struct Lines {
  int64_t outer, n, inner;
  Lines(const Shape& shape, int axis)
      : outer(size_between(shape, 0, axis)),
        n(shape[axis]),
        inner(size_between(shape, axis + 1, shape.ndim())) {}
};

}  // namespace troupe

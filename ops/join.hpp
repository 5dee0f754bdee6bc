// What concat, concat_gradient and split share: tensors that are pieces of one whole along an axis.
#pragma once

#include <cstring>

#include "ops/axes.hpp"
#include "troupe/op.hpp"

namespace troupe {

// The shapes of the inputs from number `first` on.
inline std::vector<Shape> input_shapes(const InferContext& ctx, int first) {
  std::vector<Shape> shapes;
  for (int i = first; i < ctx.input_count(); ++i) shapes.push_back(ctx.input(i));
  return shapes;
}
inline std::vector<Shape> input_shapes(const KernelContext& ctx, int first) {
  std::vector<Shape> shapes;
  for (int i = first; i < ctx.input_count(); ++i) shapes.push_back(ctx.input(i).shape());
  return shapes;
}

// Of two parts, one behind the other.
template <class Context>
int64_t joined_size(const Context& ctx, int64_t a, int64_t b) {
  if (a < 0 || b < 0) return -1;
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum))
    throw ctx.error("parts of sizes ", a, " and ", b,
                    " are too large to be joined; leave some out");
  return sum;
}

// The parts joined along `axis`; -1 where it is not known. Throws: Error(invalid_argument) if they
// do not fit together.
template <class Context>
Shape joined_shape(const Context& ctx, const std::vector<Shape>& parts, int axis) {
  Shape whole = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) {
    const Shape& part = parts[i];
    bool fits = part.ndim() == whole.ndim();
    for (int d = 0; fits && d < whole.ndim(); ++d) {
      if (d == axis) {
        whole.set(d, joined_size(ctx, whole[d], part[d]));
        continue;
      }
      fits = may_equal(whole[d], part[d]);
      if (whole[d] < 0) whole.set(d, part[d]);
    }
    if (!fits)
      throw ctx.error("parts may differ along axis ", axis, " alone, got ", parts[0], " and ", part,
                      "; make their other sizes equal");
  }
  return whole;
}

// How a whole lies in memory beside one part of it: `count` runs, of so many bytes each.
struct Runs {
  int64_t count, whole_bytes, part_bytes;
  Runs(const Shape& whole, const Shape& part, int axis, DType dtype)
      : count(size_between(whole, 0, axis)),
        whole_bytes(size_between(whole, axis, whole.ndim()) * size_of(dtype)),
        part_bytes(size_between(part, axis, part.ndim()) * size_of(dtype)) {}

  // `whole` is the address of the part's first run in the whole.
  void copy_in(const char* part, char* whole) const {
    if (part_bytes == 0) return;
    for (int64_t r = 0; r < count; ++r)
      std::memcpy(whole + r * whole_bytes, part + r * part_bytes, static_cast<size_t>(part_bytes));
  }
  void copy_out(const char* whole, char* part) const {
    if (part_bytes == 0) return;
    for (int64_t r = 0; r < count; ++r)
      std::memcpy(part + r * part_bytes, whole + r * whole_bytes, static_cast<size_t>(part_bytes));
  }
};

}  // namespace troupe

// Parts of one whole along an axis, for concat, concat_gradient and split.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "ops/support/axes.hpp"
#include "troupe/op.hpp"

namespace troupe {

// The shapes of the inputs from index `first` on.
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

// The size of two joined parts.
template <class Context>
int64_t joined_size(const Context& ctx, int64_t a, int64_t b) {
  if (a < 0 || b < 0) return -1;
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum))
    throw ctx.error("parts of sizes ", a, " and ", b,
                    " are too large to be joined; leave some out");
  return sum;
}

// The shape of the parts joined along `axis`, with -1 for an unknown size. Throws:
// Error(invalid_argument) if they do not fit together.
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

// The memory layout of one part within the whole: `count` runs of whole_bytes and part_bytes each.
struct Runs {
  int64_t count, whole_bytes, part_bytes;
  Runs(const Shape& whole, const Shape& part, int axis, DType dtype)
      : count(size_between(whole, 0, axis)),
        whole_bytes(size_between(whole, axis, whole.ndim()) * size_of(dtype)),
        part_bytes(size_between(part, axis, part.ndim()) * size_of(dtype)) {}

  void copy_out(const char* whole, char* part) const {
    if (part_bytes == 0) return;
    for (int64_t r = 0; r < count; ++r)
      std::memcpy(part + r * part_bytes, whole + r * whole_bytes, static_cast<size_t>(part_bytes));
  }
};

// The memory layout of all parts within the whole.
class JoinedRuns {
 public:
  JoinedRuns(const Shape& whole, const std::vector<Shape>& parts, int axis, DType dtype)
      : count_(size_between(whole, 0, axis)) {
    for (const Shape& part : parts)
      begins_.push_back(begins_.back() + Runs(whole, part, axis, dtype).part_bytes);
  }

  // Calls copy(part, offset in the part, offset in the whole, bytes), in jobs. Offsets are in
  // bytes; the pieces together cover the whole.
  template <class Copy>
  void run(const KernelContext& ctx, const Copy& copy) const {
    const int64_t bytes = begins_.back();  // of one run
    if (bytes == 0 || count_ == 0) return;
    // A job is several runs, or a piece of one run.
    const int64_t runs = std::max<int64_t>(1, kJobBytes / bytes);
    const int64_t across = (bytes + kJobBytes - 1) / kJobBytes;
    ctx.parallel((count_ + runs - 1) / runs * across, [&](int64_t job) {
      const int64_t first = job / across * runs, last = std::min(count_, first + runs);
      const int64_t begin = job % across * kJobBytes, end = std::min(bytes, begin + kJobBytes);
      for (size_t i = 0; i + 1 < begins_.size(); ++i) {
        const int64_t from = std::max(begin, begins_[i]), to = std::min(end, begins_[i + 1]);
        const int64_t part_bytes = begins_[i + 1] - begins_[i];
        for (int64_t r = first; r < last && from < to; ++r)
          copy(i, r * part_bytes + from - begins_[i], r * bytes + from,
               static_cast<size_t>(to - from));
      }
    });
  }

 private:
  static constexpr int64_t kJobBytes = 1 << 18;  // about 20 us
  int64_t count_;
  // Offset of each part in a run of the whole, in bytes; then the run's end.
  std::vector<int64_t> begins_ = {0};
};

}  // namespace troupe

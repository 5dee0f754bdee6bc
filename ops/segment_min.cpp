// SegmentMin: y[s] = the least, element by element, of the rows of x whose id is s; NaN if there is
// one; the greatest number, infinity for floats, where there is no row. ops/segments.hpp says what
// x, ids and y are.
#include <limits>

#include "ops/segments.hpp"

namespace troupe {
namespace {

struct Least : Minimum {
  template <class T>
  static T nothing() {
    using Limits = std::numeric_limits<T>;
    return Limits::has_infinity ? Limits::infinity() : Limits::max();
  }
};

}  // namespace

Op segment_min_op() {
  return segment_op<Least, float, double, int32_t, int64_t>("SegmentMin", share_gradient,
                                                            Precision::same);
}

Output segment_min(Output x, Output ids, int64_t segments, Origin at) {
  return add_segment_op("SegmentMin", x, ids, segments, /*sorted=*/true, at);
}

Output unsorted_segment_min(Output x, Output ids, int64_t segments, Origin at) {
  return add_segment_op("SegmentMin", x, ids, segments, /*sorted=*/false, at);
}

}  // namespace troupe

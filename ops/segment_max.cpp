// SegmentMax: y[s] = the greatest, element by element, of the rows of x whose id is s; NaN if there
// is one; the lowest number, -infinity for floats, where there is no row. ops/segments.hpp says
// what x, ids and y are.
#include <limits>

#include "ops/segments.hpp"

namespace troupe {
namespace {

struct Greatest : Maximum {
  template <class T>
  static T nothing() {
    using Limits = std::numeric_limits<T>;
    return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  }
};

}  // namespace

Op segment_max_op() {
  return segment_op<Greatest, float, double, int32_t, int64_t>("SegmentMax", share_gradient,
                                                               Precision::same);
}

Output segment_max(Output x, Output ids, int64_t segments, Origin at) {
  return add_segment_op("SegmentMax", x, ids, segments, /*sorted=*/true, at);
}

Output unsorted_segment_max(Output x, Output ids, int64_t segments, Origin at) {
  return add_segment_op("SegmentMax", x, ids, segments, /*sorted=*/false, at);
}

}  // namespace troupe

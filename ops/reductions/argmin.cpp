// ArgMin: y = the index of the least x along `axis`; the first one if several are equal. NaN counts
// as less than all numbers.
//   x: [..., n, ...], n >= 1   y: i64, the shape of x without `axis`. Negative axes count from the
//   end.
#include "ops/reductions/extremes.hpp"

namespace troupe {

Op argmin_op() { return index_of_extreme_op<Minimum>("ArgMin"); }

Output argmin(Output x, int64_t axis, Origin at) {
  return add_node({.op = "ArgMin", .inputs = {x}, .attrs = {{"axis", axis}}}, at);
}

}  // namespace troupe

// ArgMax: y = the index of the greatest x along `axis`; the first one if several are equal. NaN
// counts as greater than all numbers.
//   x: [..., n, ...], n >= 1   y: i64, the shape of x without `axis`. Negative axes count from the
//   end.
#include "ops/reductions/extremes.hpp"

namespace troupe {

Op argmax_op() { return index_of_extreme_op<Maximum>("ArgMax"); }

Output argmax(Output x, int64_t axis, Origin at) {
  return add_node({.op = "ArgMax", .inputs = {x}, .attrs = {{"axis", axis}}}, at);
}

}  // namespace troupe

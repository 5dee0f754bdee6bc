// Less: c = (a < b) as bool, element-wise and broadcasting. NaN is less than nothing.
#include "ops/elementwise/comparison.hpp"

namespace troupe {
namespace {

struct Less {
  template <class T>
  static bool apply(T a, T b) {
    return a < b;
  }
};

}  // namespace

Op less_op() { return comparison_op<Less, float, double, int32_t, int64_t, uint8_t>("Less"); }

Output less(Output a, Output b, Origin at) {
  return add_node({.op = "Less", .inputs = {a, b}}, at);
}

}  // namespace troupe

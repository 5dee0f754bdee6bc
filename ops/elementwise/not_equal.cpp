// NotEqual: c = (a != b) as bool, element-wise and broadcasting. NaN differs from everything,
// itself included.
#include "ops/elementwise/comparison.hpp"

namespace troupe {
namespace {

struct NotEqual {
  template <class T>
  static bool apply(T a, T b) {
    return a != b;
  }
};

}  // namespace

Op not_equal_op() {
  return comparison_op<NotEqual, float, double, int32_t, int64_t, uint8_t, bool>("NotEqual");
}

Output not_equal(Output a, Output b, Origin at) {
  return add_node({.op = "NotEqual", .inputs = {a, b}}, at);
}

}  // namespace troupe

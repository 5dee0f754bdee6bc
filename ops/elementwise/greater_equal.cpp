// GreaterEqual: c = (a >= b) as bool, element-wise and broadcasting. False where either is NaN.
#include "ops/elementwise/comparison.hpp"

namespace troupe {
namespace {

struct GreaterEqual {
  template <class T>
  static bool apply(T a, T b) {
    return a >= b;
  }
};

}  // namespace

Op greater_equal_op() {
  return comparison_op<GreaterEqual, float, double, int32_t, int64_t, uint8_t>("GreaterEqual");
}

Output greater_equal(Output a, Output b, Origin at) {
  return add_node({.op = "GreaterEqual", .inputs = {a, b}}, at);
}

}  // namespace troupe

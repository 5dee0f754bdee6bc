// LessEqual: c = (a <= b) as bool, element-wise and broadcasting. False where either is NaN.
#include "ops/elementwise/comparison.hpp"

namespace troupe {
namespace {

struct LessEqual {
  template <class T>
  static bool apply(T a, T b) {
    return a <= b;
  }
};

}  // namespace

Op less_equal_op() {
  return comparison_op<LessEqual, float, double, int32_t, int64_t, uint8_t>("LessEqual");
}

Output less_equal(Output a, Output b, Origin at) {
  return add_node({.op = "LessEqual", .inputs = {a, b}}, at);
}

}  // namespace troupe

// Greater: c = (a > b) as bool, element-wise and broadcasting. NaN is greater than nothing.
#include "ops/elementwise/comparison.hpp"

namespace troupe {
namespace {

struct Greater {
  template <class T>
  static bool apply(T a, T b) {
    return a > b;
  }
};

}  // namespace

Op greater_op() {
  return comparison_op<Greater, float, double, int32_t, int64_t, uint8_t>("Greater");
}

Output greater(Output a, Output b, Origin at) {
  return add_node({.op = "Greater", .inputs = {a, b}}, at);
}

}  // namespace troupe

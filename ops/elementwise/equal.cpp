// Equal: c = (a == b) as bool, element-wise and broadcasting. NaN equals nothing.
#include "ops/elementwise/comparison.hpp"

namespace troupe {
namespace {

struct Equal {
  template <class T>
  static bool apply(T a, T b) {
    return a == b;
  }
};

}  // namespace

Op equal_op() {
  return comparison_op<Equal, float, double, int32_t, int64_t, uint8_t, bool>("Equal");
}

Output equal(Output a, Output b, Origin at) {
  return add_node({.op = "Equal", .inputs = {a, b}}, at);
}

}  // namespace troupe

// Invert: y = x with all its bits turned over, element-wise, of integers: -x - 1 for signed ones.
// LogicalNot is the one for bool.
#include "ops/support/elementwise.hpp"
#include "ops/support/narrow.hpp"

namespace troupe {
namespace {

struct BitwiseNot {
  template <class T>
  static T apply(T x) {
    return static_cast<T>(~x);
  }
};

}  // namespace

Op bitwise_not_op() {
  return {.name = "Invert",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .no_gradient = "integers have no slope",
          .kernels = with_i8(unary_kernels<BitwiseNot, int32_t, int64_t, uint8_t>()),
          .in_place = true};
}

Output bitwise_not(Output x, Origin at) { return add_node({.op = "Invert", .inputs = {x}}, at); }

}  // namespace troupe

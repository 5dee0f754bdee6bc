// BitwiseAnd: c = the bits that are set in both a and b, element-wise and broadcasting. A bool is
// one bit.
#include "ops/support/elementwise.hpp"
#include "ops/support/narrow.hpp"

namespace troupe {
namespace {

struct BitwiseAnd {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};

}  // namespace

Op bitwise_and_op() {
  return {.name = "BitwiseAnd",
          .inputs = {"a", "b"},
          .outputs = {"c"},
          .infer_shapes = infer_broadcast,
          .no_gradient = "its values are integers",
          .kernels = with_i8(binary_kernels<BitwiseAnd, int32_t, int64_t, uint8_t, bool>()),
          .in_place = true};
}

Output bitwise_and(Output a, Output b, Origin at) {
  return add_node({.op = "BitwiseAnd", .inputs = {a, b}}, at);
}

}  // namespace troupe

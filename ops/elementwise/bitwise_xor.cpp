// BitwiseXor: c = the bits in which a and b differ, element-wise and broadcasting. A bool is one
// bit.
#include "ops/support/elementwise.hpp"
#include "ops/support/narrow.hpp"

namespace troupe {
namespace {

struct BitwiseXor {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

}  // namespace

Op bitwise_xor_op() {
  return {.name = "BitwiseXor",
          .inputs = {"a", "b"},
          .outputs = {"c"},
          .infer_shapes = infer_broadcast,
          .no_gradient = "its values are integers",
          .kernels = with_i8(binary_kernels<BitwiseXor, int32_t, int64_t, uint8_t, bool>()),
          .in_place = true};
}

Output bitwise_xor(Output a, Output b, Origin at) {
  return add_node({.op = "BitwiseXor", .inputs = {a, b}}, at);
}

}  // namespace troupe

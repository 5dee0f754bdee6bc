// LeftShift: c = a * 2^b, element-wise and broadcasting; bits that leave at the top are lost, and
// all of them are for a b that is no less than the number of bits (in C++ that is undefined).
//   a, b: integers of one dtype. A negative b is refused.
#include "ops/elementwise/shift.hpp"

namespace troupe {
namespace {

struct LeftShift : Shift {
  template <class T>
  static T apply(T a, T b) {
    const wrapping<T> moved = static_cast<wrapping<T>>(wrapping<T>(a) << (b & (kBits<T> - 1)));
    return static_cast<T>(b < kBits<T> ? moved : 0);
  }
};

}  // namespace

Op left_shift_op() {
  return {.name = "LeftShift",
          .inputs = {"a", "b"},
          .outputs = {"c"},
          .infer_shapes = infer_broadcast,
          .no_gradient = "its values are integers",
          .kernels = binary_kernels<LeftShift, int32_t, int64_t, uint8_t>(),
          .in_place = true};
}

Output left_shift(Output a, Output b, Origin at) {
  return add_node({.op = "LeftShift", .inputs = {a, b}}, at);
}

}  // namespace troupe

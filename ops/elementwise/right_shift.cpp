// RightShift: c = a / 2^b rounded down, element-wise and broadcasting: the sign fills up from the
// top. A b that is no less than the number of bits leaves only the sign, 0 or -1 (in C++ it is
// undefined).
//   a, b: integers of one dtype. A negative b is refused.
#include "ops/elementwise/shift.hpp"

namespace troupe {
namespace {

struct RightShift : Shift {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_signed_v<T>) {
      return static_cast<T>(a >> (b < kBits<T> ? b : kBits<T> - 1));
    } else {
      const T moved = static_cast<T>(a >> (b & (kBits<T> - 1)));
      return b < kBits<T> ? moved : T{0};
    }
  }
};

}  // namespace

Op right_shift_op() {
  return {.name = "RightShift",
          .inputs = {"a", "b"},
          .outputs = {"c"},
          .infer_shapes = infer_broadcast,
          .no_gradient = "its values are integers",
          .kernels = binary_kernels<RightShift, int32_t, int64_t, uint8_t>(),
          .in_place = true};
}

Output right_shift(Output a, Output b, Origin at) {
  return add_node({.op = "RightShift", .inputs = {a, b}}, at);
}

}  // namespace troupe

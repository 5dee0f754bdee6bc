// NotEqual: c = (a != b) as bool, element-wise and broadcasting. NaN differs from everything,
// itself included.
#include "ops/elementwise.hpp"
#include "ops/narrow.hpp"

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
  return {.name = "NotEqual",
          .inputs = {"a", "b"},
          .outputs = {"c"},
          .infer_dtypes = infer_comparison,
          .infer_shapes = infer_broadcast,
          .no_gradient = "a comparison is constant wherever it has a slope",
          .kernels = with_i8(
              comparison_kernels<NotEqual, float, double, int32_t, int64_t, uint8_t, bool>())};
}

Output not_equal(Output a, Output b, Origin at) {
  return add_node({.op = "NotEqual", .inputs = {a, b}}, at);
}

}  // namespace troupe

// Less: c = (a < b) as bool, element-wise and broadcasting. NaN is less than nothing.
#include "ops/elementwise.hpp"
#include "ops/narrow.hpp"

namespace troupe {
namespace {

struct Less {
  template <class T>
  static bool apply(T a, T b) {
    return a < b;
  }
};

}  // namespace

Op less_op() {
  return {.name = "Less",
          .inputs = {"a", "b"},
          .outputs = {"c"},
          .infer_dtypes = infer_comparison,
          .infer_shapes = infer_broadcast,
          .no_gradient = "a comparison is constant wherever it has a slope",
          .kernels = with_i8(comparison_kernels<Less, float, double, int32_t, int64_t, uint8_t>())};
}

Output less(Output a, Output b, Origin at) {
  return add_node({.op = "Less", .inputs = {a, b}}, at);
}

}  // namespace troupe

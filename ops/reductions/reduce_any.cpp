// ReduceAny: y = true if any of x is true, over axes (all of them if none is named); false for no
// elements.
//   x: bool, any shape   y: x without the axes, or with size 1 there if keep_dims.
#include "ops/reductions/reduction.hpp"

namespace troupe {
namespace {

struct Any : LogicalOr {
  template <class T>
  static constexpr T nothing = false;
};

const Reduction& reduction(DType dtype) { return find_reduction<Any, bool>(dtype); }

}  // namespace

Op reduce_any_op() {
  return {.name = "ReduceAny",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = reduce_attrs(),
          .infer_shapes = infer_reduced,
          .no_gradient = "its values are bool",
          .kernels = reduce_kernels<run_reduction<reduction>, bool>()};
}

Output reduce_any(Output x, ReduceOptions options, Origin at) {
  return add_node({.op = "ReduceAny", .inputs = {x}, .attrs = to_attrs(options)}, at);
}

}  // namespace troupe

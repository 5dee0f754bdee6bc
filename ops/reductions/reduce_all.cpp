// ReduceAll: y = true if all of x are true, over axes (all of them if none is named); true for no
// elements.
//   x: bool, any shape   y: x without the axes, or with size 1 there if keep_dims.
#include "ops/reductions/reduction.hpp"

namespace troupe {
namespace {

struct All : LogicalAnd {
  template <class T>
  static constexpr T nothing = true;
};

const Reduction& reduction(DType dtype) { return find_reduction<All, bool>(dtype); }

}  // namespace

Op reduce_all_op() {
  return {.name = "ReduceAll",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = reduce_attrs(),
          .infer_shapes = infer_reduced,
          .no_gradient = "its values are bool",
          .kernels = reduce_kernels<run_reduction<reduction>, bool>()};
}

Output reduce_all(Output x, ReduceOptions options, Origin at) {
  return add_node({.op = "ReduceAll", .inputs = {x}, .attrs = to_attrs(options)}, at);
}

}  // namespace troupe

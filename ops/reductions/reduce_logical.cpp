// ReduceAll and ReduceAny: y = true if all, or any, of x are true, over axes (all of them if none
// is named). For no elements all are true, and none is.
//   x: bool, any shape   y: x without the axes, or with size 1 there if keep_dims.
#include "ops/reductions/reduction.hpp"

namespace troupe {
namespace {

struct All : LogicalAnd {
  template <class T>
  static constexpr T nothing = true;
};

struct Any : LogicalOr {
  template <class T>
  static constexpr T nothing = false;
};

template <class R>
const Reduction& reduction(DType dtype) {
  return find_reduction<R, bool>(dtype);
}

template <class R>
Op reduce_op(const char* name) {
  return {.name = name,
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = reduce_attrs(),
          .infer_shapes = infer_reduced,
          .no_gradient = "its values are bool",
          .kernels = reduce_kernels<run_reduction<reduction<R>>, bool>()};
}

}  // namespace

Op reduce_all_op() { return reduce_op<All>("ReduceAll"); }
Op reduce_any_op() { return reduce_op<Any>("ReduceAny"); }

Output reduce_all(Output x, ReduceOptions options, Origin at) {
  return add_node({.op = "ReduceAll", .inputs = {x}, .attrs = to_attrs(options)}, at);
}
Output reduce_any(Output x, ReduceOptions options, Origin at) {
  return add_node({.op = "ReduceAny", .inputs = {x}, .attrs = to_attrs(options)}, at);
}

}  // namespace troupe

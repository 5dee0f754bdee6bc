// builtin_ops: every op of the project, named once. A list and not a side effect: no linker drops
// one, and everybody can read it.
#include "ops/all.hpp"

namespace troupe {
namespace {

// One a line, sorted.
// clang-format off
constexpr Op (*kOps[])() = {
    add_op,
    argmax_op,
    bias_add_op,
    broadcast_like_op,
    broadcast_to_op,
    cast_op,
    check_finite_op,
    concat_op,
    concat_gradient_op,
    constant_op,
    conv2d_op,
    conv2d_filter_gradient_op,
    conv2d_input_gradient_op,
    divide_op,
    dropout_op,
    equal_op,
    exp_op,
    fill_op,
    gather_op,
    gather_gradient_op,
    greater_op,
    group_op,
    identity_op,
    log_op,
    matmul_op,
    max_pool2d_op,
    max_pool2d_gradient_op,
    max_pool2d_select_op,
    maximum_op,
    multiply_op,
    negate_op,
    one_hot_op,
    parameter_op,
    placeholder_op,
    push_gradient_op,
    random_uniform_op,
    reduce_gradient_op,
    reduce_max_op,
    reduce_mean_op,
    reduce_sum_op,
    relu_op,
    reshape_op,
    reshape_like_op,
    sigmoid_op,
    slice_op,
    slice_gradient_op,
    softmax_op,
    softmax_cross_entropy_op,
    softmax_cross_entropy_gradient_op,
    split_op,
    sqrt_op,
    square_op,
    stop_gradient_op,
    subtract_op,
    sum_to_like_op,
    tanh_op,
    transpose_op,
    truncated_normal_op,
    where_op,
    with_gradient_op,
};
// clang-format on

}  // namespace

std::shared_ptr<const Registry> builtin_ops() {
  static const std::shared_ptr<const Registry> all = [] {
    auto registry = std::make_shared<Registry>();
    for (auto* make_op : kOps) {
      Op op = make_op();
      add_cuda_kernels(op);
      registry->add(std::move(op));
    }
    return registry;
  }();
  return all;
}

}  // namespace troupe

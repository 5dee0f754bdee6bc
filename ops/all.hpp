// The ops of the project, sorted: each is made by the file of its name, and listed in ops/all.cpp.
#pragma once

#include "troupe/op.hpp"

namespace troupe {

// Adds the kernels for GPUs, if this is built with CUDA and there are any for `op`.
void add_cuda_kernels(Op& op);

Op add_op();
Op argmax_op();
Op bias_add_op();
Op broadcast_like_op();
Op broadcast_to_op();
Op cast_op();
Op check_finite_op();
Op concat_op();
Op concat_gradient_op();
Op constant_op();
Op conv2d_op();
Op conv2d_filter_gradient_op();
Op conv2d_input_gradient_op();
Op divide_op();
Op dropout_op();
Op equal_op();
Op exp_op();
Op fill_op();
Op gather_op();
Op gather_gradient_op();
Op greater_op();
Op group_op();
Op identity_op();
Op log_op();
Op matmul_op();
Op max_pool2d_op();
Op max_pool2d_gradient_op();
Op max_pool2d_select_op();
Op maximum_op();
Op multiply_op();
Op negate_op();
Op one_hot_op();
Op parameter_op();
Op placeholder_op();
Op push_gradient_op();
Op random_uniform_op();
Op reduce_gradient_op();
Op reduce_max_op();
Op reduce_mean_op();
Op reduce_sum_op();
Op relu_op();
Op reshape_op();
Op reshape_like_op();
Op sigmoid_op();
Op slice_op();
Op slice_gradient_op();
Op softmax_op();
Op softmax_cross_entropy_op();
Op softmax_cross_entropy_gradient_op();
Op split_op();
Op sqrt_op();
Op square_op();
Op stop_gradient_op();
Op subtract_op();
Op sum_to_like_op();
Op tanh_op();
Op transpose_op();
Op truncated_normal_op();
Op where_op();
Op with_gradient_op();

}  // namespace troupe

// builtin_ops: names every op of the project once. An explicit list, so that no linker drops an op
// and every reader can see them.
#include "devices/threads/isa.hpp"
#include "ops/support/all_cuda.hpp"
#include "ops/images/convolution_bf16.hpp"
#include "ops/support/narrow.hpp"
#include "ops/support/onednn_cache.hpp"

namespace troupe {

// Sorted. OP(cube) stands for the function `Op cube_op()`, defined in the op's file, cube.cpp.
// clang-format off
#define TROUPE_OPS(OP)                   \
  OP(abs)                                \
  OP(acos)                               \
  OP(acosh)                              \
  OP(add)                                \
  OP(argmax)                             \
  OP(argmin)                             \
  OP(argsort)                            \
  OP(argument)                           \
  OP(asin)                               \
  OP(asinh)                              \
  OP(atan)                               \
  OP(atan2)                              \
  OP(atanh)                              \
  OP(attention)                          \
  OP(attention_gradient)                 \
  OP(average_pool)                       \
  OP(average_pool_gradient)              \
  OP(band_part)                          \
  OP(barrier_insert)                     \
  OP(barrier_take)                       \
  OP(batch_norm)                         \
  OP(batch_norm_gradient)                \
  OP(batch_norm_inference)               \
  OP(bernoulli)                          \
  OP(bias_add)                           \
  OP(bincount)                           \
  OP(bitwise_and)                        \
  OP(bitwise_not)                        \
  OP(bitwise_or)                         \
  OP(bitwise_xor)                        \
  OP(boolean_mask)                       \
  OP(branch)                             \
  OP(broadcast_like)                     \
  OP(broadcast_to)                       \
  OP(call)                               \
  OP(call_path)                          \
  OP(capture)                            \
  OP(cast)                               \
  OP(categorical)                        \
  OP(cbrt)                               \
  OP(ceil)                               \
  OP(check)                              \
  OP(check_finite)                       \
  OP(cholesky)                           \
  OP(clip)                               \
  OP(close_barrier)                      \
  OP(close_queue)                        \
  OP(common_rows)                        \
  OP(concat)                             \
  OP(concat_gradient)                    \
  OP(constant)                           \
  OP(convolution)                        \
  OP(convolution_filter_gradient)        \
  OP(convolution_input_gradient)         \
  OP(convolution_transpose)              \
  OP(copysign)                           \
  OP(cos)                                \
  OP(cosh)                               \
  OP(crop)                               \
  OP(crop_gradient)                      \
  OP(ctc_loss)                           \
  OP(ctc_loss_gradient)                  \
  OP(cumprod)                            \
  OP(cumsum)                             \
  OP(depth_to_space)                     \
  OP(dequeue)                            \
  OP(determinant)                        \
  OP(diag)                               \
  OP(diagonal)                           \
  OP(diagonal_gradient)                  \
  OP(digamma)                            \
  OP(divide)                             \
  OP(dropout)                            \
  OP(dynamic_partition)                  \
  OP(dynamic_partition_gradient)         \
  OP(dynamic_stitch)                     \
  OP(dynamic_stitch_gradient)            \
  OP(eigh)                               \
  OP(elu)                                \
  OP(enqueue)                            \
  OP(equal)                              \
  OP(erf)                                \
  OP(erfc)                               \
  OP(erfinv)                             \
  OP(exp)                                \
  OP(exp2)                               \
  OP(expand_dims)                        \
  OP(expm1)                              \
  OP(fill)                               \
  OP(floor)                              \
  OP(floor_divide)                       \
  OP(fmax)                               \
  OP(fmin)                               \
  OP(fmod)                               \
  OP(function)                           \
  OP(fused)                              \
  OP(gather)                             \
  OP(gather_gradient)                    \
  OP(gather_nd)                          \
  OP(gelu)                               \
  OP(greater)                            \
  OP(greater_equal)                      \
  OP(group)                              \
  OP(gru)                                \
  OP(gru_gradient)                       \
  OP(hard_sigmoid)                       \
  OP(heaviside)                          \
  OP(hypot)                              \
  OP(identity)                           \
  OP(in_top_k)                           \
  OP(inverse)                            \
  OP(invert_permutation)                 \
  OP(is_finite)                          \
  OP(is_inf)                             \
  OP(is_nan)                             \
  OP(layer_norm)                         \
  OP(layer_norm_gradient)                \
  OP(leaky_relu)                         \
  OP(left_shift)                         \
  OP(less)                               \
  OP(less_equal)                         \
  OP(lgamma)                             \
  OP(linear_recurrence)                  \
  OP(linspace)                           \
  OP(log)                                \
  OP(log10)                              \
  OP(log1p)                              \
  OP(log2)                               \
  OP(log_add_exp)                        \
  OP(log_det)                            \
  OP(log_sum_exp)                        \
  OP(log_uniform_candidates)             \
  OP(logical_and)                        \
  OP(logical_not)                        \
  OP(logical_or)                         \
  OP(logical_xor)                        \
  OP(loop)                               \
  OP(loop_variable)                      \
  OP(lstm)                               \
  OP(lstm_gradient)                      \
  OP(matmul)                             \
  OP(max_pool)                           \
  OP(max_pool_gradient)                  \
  OP(max_pool_select)                    \
  OP(maximum)                            \
  OP(merge)                              \
  OP(minimum)                            \
  OP(mish)                               \
  OP(mod)                                \
  OP(multiply)                           \
  OP(negate)                             \
  OP(nonzero)                            \
  OP(not_equal)                          \
  OP(one_hot)                            \
  OP(pad)                                \
  OP(pad_gradient)                       \
  OP(parameter)                          \
  OP(parameter_rows)                     \
  OP(placeholder)                        \
  OP(pow)                                \
  OP(print)                              \
  OP(push_finite_gradient)               \
  OP(push_gradient)                      \
  OP(push_row_gradient)                  \
  OP(qr)                                 \
  OP(queue_size)                         \
  OP(random_gamma)                       \
  OP(random_int)                         \
  OP(random_normal)                      \
  OP(random_permutation)                 \
  OP(random_uniform)                     \
  OP(range)                              \
  OP(reciprocal)                         \
  OP(reduce_all)                         \
  OP(reduce_any)                         \
  OP(reduce_gradient)                    \
  OP(reduce_max)                         \
  OP(reduce_mean)                        \
  OP(reduce_min)                         \
  OP(reduce_prod)                        \
  OP(reduce_sum)                         \
  OP(regroup)                            \
  OP(relu)                               \
  OP(relu6)                              \
  OP(repeat)                             \
  OP(repeat_gradient)                    \
  OP(reshape)                            \
  OP(reshape_like)                       \
  OP(resize)                             \
  OP(resize_gradient)                    \
  OP(restore)                            \
  OP(return)                             \
  OP(reverse)                            \
  OP(reverse_sequence)                   \
  OP(right_shift)                        \
  OP(rms_norm)                           \
  OP(rms_norm_gradient)                  \
  OP(roll)                               \
  OP(round)                              \
  OP(rsqrt)                              \
  OP(save)                               \
  OP(scatter_nd)                         \
  OP(search_sorted)                      \
  OP(segment_max)                        \
  OP(segment_min)                        \
  OP(segment_prod)                       \
  OP(segment_sum)                        \
  OP(selu)                               \
  OP(shape_of)                           \
  OP(sigmoid)                            \
  OP(sigmoid_cross_entropy)              \
  OP(sign)                               \
  OP(signbit)                            \
  OP(silu)                               \
  OP(sin)                                \
  OP(sinh)                               \
  OP(slice)                              \
  OP(slice_gradient)                     \
  OP(softmax)                            \
  OP(softmax_cross_entropy)              \
  OP(softmax_cross_entropy_and_gradient) \
  OP(softmax_cross_entropy_gradient)     \
  OP(softplus)                           \
  OP(softsign)                           \
  OP(solve)                              \
  OP(sort)                               \
  OP(space_to_depth)                     \
  OP(sparse_dense_matmul)                \
  OP(split)                              \
  OP(sqrt)                               \
  OP(square)                             \
  OP(squared_difference)                 \
  OP(squeeze)                            \
  OP(stop_gradient)                      \
  OP(strided_slice)                      \
  OP(strided_slice_gradient)             \
  OP(subtract)                           \
  OP(sum_rows)                           \
  OP(sum_to_like)                        \
  OP(svd)                                \
  OP(take_along)                         \
  OP(take_along_gradient)                \
  OP(tan)                                \
  OP(tanh)                               \
  OP(tensor_scatter_add)                 \
  OP(tensor_scatter_max)                 \
  OP(tensor_scatter_min)                 \
  OP(tensor_scatter_sub)                 \
  OP(tensor_scatter_update)              \
  OP(tensor_scatter_update_gradient)     \
  OP(tile)                               \
  OP(tile_gradient)                      \
  OP(top_k)                              \
  OP(transpose)                          \
  OP(triangular_solve)                   \
  OP(trigamma)                           \
  OP(trunc)                              \
  OP(truncated_normal)                   \
  OP(unigram_candidates)                 \
  OP(unique)                             \
  OP(where)                              \
  OP(while)                              \
  OP(window_sum)                         \
  OP(with_gradient)                      \
  OP(write_parameter)                    \
  OP(write_parameter_rows)               \
  OP(xlogy)
// clang-format on

#define TROUPE_DECLARE(name) Op name##_op();
TROUPE_OPS(TROUPE_DECLARE)
#undef TROUPE_DECLARE

std::shared_ptr<const Registry> builtin_ops() {
  static const std::shared_ptr<const Registry> all = [] {
    isa();  // an unknown name throws before there is a graph
    make_onednn_cache();
    auto registry = std::make_shared<Registry>();
    const auto add = [&](Op op) {
      add_cuda_kernels(op);
      add_bf16_convolution(op);
      add_narrow_kernels(op);
      registry->add_built_in(std::move(op));
    };
#define TROUPE_ADD(name) add(name##_op());
    TROUPE_OPS(TROUPE_ADD)
#undef TROUPE_ADD
    return registry;
  }();
  return all;
}

#undef TROUPE_OPS

}  // namespace troupe

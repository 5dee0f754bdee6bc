// builtin_ops: names every op of the project, or its family, once. An explicit list, so that no
// linker drops an op and every reader can see them.
#include "devices/threads/isa.hpp"
#include "ops/support/all_cuda.hpp"
#include "ops/images/convolution_bf16.hpp"
#include "ops/support/narrow.hpp"
#include "ops/support/onednn_cache.hpp"

namespace troupe {

// Sorted. OP(cube) stands for the function `Op cube_op()`, defined in the op's file, cube.cpp.
// clang-format off
#define TROUPE_OPS(OP)                   \
  OP(argmax)                             \
  OP(argmin)                             \
  OP(argsort)                            \
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
  OP(boolean_mask)                       \
  OP(broadcast_like)                     \
  OP(broadcast_to)                       \
  OP(call_path)                          \
  OP(cast)                               \
  OP(categorical)                        \
  OP(check)                              \
  OP(check_finite)                       \
  OP(cholesky)                           \
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
  OP(dropout)                            \
  OP(dynamic_partition)                  \
  OP(dynamic_partition_gradient)         \
  OP(dynamic_stitch)                     \
  OP(dynamic_stitch_gradient)            \
  OP(eigh)                               \
  OP(enqueue)                            \
  OP(expand_dims)                        \
  OP(fill)                               \
  OP(fused)                              \
  OP(gather)                             \
  OP(gather_gradient)                    \
  OP(group)                              \
  OP(gru)                                \
  OP(gru_gradient)                       \
  OP(identity)                           \
  OP(in_top_k)                           \
  OP(inverse)                            \
  OP(invert_permutation)                 \
  OP(layer_norm)                         \
  OP(layer_norm_gradient)                \
  OP(linear_recurrence)                  \
  OP(linspace)                           \
  OP(log_det)                            \
  OP(log_sum_exp)                        \
  OP(log_uniform_candidates)             \
  OP(lstm)                               \
  OP(lstm_gradient)                      \
  OP(matmul)                             \
  OP(max_pool)                           \
  OP(max_pool_gradient)                  \
  OP(max_pool_select)                    \
  OP(nonzero)                            \
  OP(one_hot)                            \
  OP(pad)                                \
  OP(pad_gradient)                       \
  OP(parameter)                          \
  OP(parameter_rows)                     \
  OP(placeholder)                        \
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
  OP(read_source)                        \
  OP(reduce_all)                         \
  OP(reduce_any)                         \
  OP(reduce_gradient)                    \
  OP(reduce_max)                         \
  OP(reduce_mean)                        \
  OP(reduce_min)                         \
  OP(reduce_prod)                        \
  OP(reduce_sum)                         \
  OP(regroup)                            \
  OP(repeat)                             \
  OP(repeat_gradient)                    \
  OP(reshape)                            \
  OP(reshape_like)                       \
  OP(resize)                             \
  OP(resize_gradient)                    \
  OP(reverse)                            \
  OP(reverse_sequence)                   \
  OP(rms_norm)                           \
  OP(rms_norm_gradient)                  \
  OP(roll)                               \
  OP(search_sorted)                      \
  OP(shape_of)                           \
  OP(sigmoid_cross_entropy)              \
  OP(slice)                              \
  OP(slice_gradient)                     \
  OP(softmax)                            \
  OP(softmax_cross_entropy)              \
  OP(softmax_cross_entropy_and_gradient) \
  OP(softmax_cross_entropy_gradient)     \
  OP(solve)                              \
  OP(sort)                               \
  OP(space_to_depth)                     \
  OP(sparse_dense_matmul)                \
  OP(split)                              \
  OP(squeeze)                            \
  OP(stop_gradient)                      \
  OP(strided_slice)                      \
  OP(strided_slice_gradient)             \
  OP(sum_rows)                           \
  OP(sum_to_like)                        \
  OP(svd)                                \
  OP(take_along)                         \
  OP(take_along_gradient)                \
  OP(tile)                               \
  OP(tile_gradient)                      \
  OP(top_k)                              \
  OP(transpose)                          \
  OP(triangular_solve)                   \
  OP(truncated_normal)                   \
  OP(unigram_candidates)                 \
  OP(unique)                             \
  OP(where)                              \
  OP(window_sum)                         \
  OP(with_gradient)                      \
  OP(write_parameter)                    \
  OP(write_parameter_rows)
// clang-format on

// Sorted. FAMILY(logic) stands for the function `std::vector<Op> logic_ops()`, the table of a file.
// clang-format off
#define TROUPE_FAMILIES(FAMILY) \
  FAMILY(activation)            \
  FAMILY(arithmetic)            \
  FAMILY(bit)                   \
  FAMILY(comparison)            \
  FAMILY(division)              \
  FAMILY(exponential)           \
  FAMILY(frame)                 \
  FAMILY(hyperbolic)            \
  FAMILY(logic)                 \
  FAMILY(minimum_and_maximum)   \
  FAMILY(power_and_root)        \
  FAMILY(rounding_and_sign)     \
  FAMILY(scatter)               \
  FAMILY(segment)               \
  FAMILY(special_function)      \
  FAMILY(trigonometry)
// clang-format on

#define TROUPE_DECLARE(name) Op name##_op();
TROUPE_OPS(TROUPE_DECLARE)
#undef TROUPE_DECLARE
#define TROUPE_DECLARE(name) std::vector<Op> name##_ops();
TROUPE_FAMILIES(TROUPE_DECLARE)
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
#define TROUPE_ADD(name) \
  for (Op & op : name##_ops()) add(std::move(op));
    TROUPE_FAMILIES(TROUPE_ADD)
#undef TROUPE_ADD
    return registry;
  }();
  return all;
}

#undef TROUPE_OPS
#undef TROUPE_FAMILIES

}  // namespace troupe

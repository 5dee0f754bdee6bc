// What Maximum, Minimum, Fmax and Fmin share: c is one of a and b, element-wise and broadcasting.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ops/support/elementwise.hpp"
#include "ops/support/narrow.hpp"

namespace troupe {

// Writing dc for dL/dc:  db = dc where b is chosen, else 0;  da = dc - db.
inline std::vector<Output> gradient_of_choice(const GradientContext& ctx, Output b_chosen) {
  const Output a = ctx.input(0), b = ctx.input(1), dc = ctx.output_gradient(0);
  const Output zero = constant_like(0, dc);
  return {undo_broadcast(where(b_chosen, zero, dc), a),
          undo_broadcast(where(b_chosen, dc, zero), b)};
}

// F is as in binary_kernels() (ops/support/elementwise.hpp), and gives a or b.
template <class F>
Op choice_op(std::string name, decltype(Op::gradient) gradient) {
  return {.name = std::move(name),
          .inputs = {"a", "b"},
          .outputs = {"c"},
          .infer_shapes = infer_broadcast,
          .gradient = gradient,
          .kernels = with_i8(binary_kernels<F, float, double, int32_t, int64_t, uint8_t>()),
          .in_place = true};
}

}  // namespace troupe

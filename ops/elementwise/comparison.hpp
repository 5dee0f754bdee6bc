// The table that comparisons share: c = F(a, b) as bool, element-wise and broadcasting.
#pragma once

#include <string>
#include <utility>

#include "ops/support/elementwise.hpp"
#include "ops/support/narrow.hpp"

namespace troupe {

// F is as in binary_kernels() (ops/support/elementwise.hpp), and gives a bool; Ts are the dtypes
// that have kernels, beside i8.
template <class F, class... Ts>
Op comparison_op(std::string name) {
  return {.name = std::move(name),
          .inputs = {"a", "b"},
          .outputs = {"c"},
          .infer_dtypes = infer_comparison,
          .infer_shapes = infer_broadcast,
          .no_gradient = "a comparison is constant wherever it has a slope",
          .kernels = with_i8(comparison_kernels<F, Ts...>())};
}

}  // namespace troupe

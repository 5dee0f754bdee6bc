// Rows of the families of this folder. An op that makes each element of its output of one element
// of each input is one row of its family's table, and a line for the function that adds its node.
// docs/adding_an_op.md explains a row.
#pragma once

#include <type_traits>
#include <vector>

#include "ops/support/elementwise.hpp"
#include "ops/support/narrow.hpp"
#include "ops/support/node.hpp"
#include "troupe/ops.hpp"

namespace troupe {

// ---- functions of elements, written in a row ----

// One element at a time: arithmetic that IEEE 754 rounds, choices and copies.
template <auto kFunction>
struct Each {
  template <class... Ts>
  static auto apply(Ts... x) {
    return kFunction(x...);
  }
};

// By whole blocks (ops/support/elementwise.hpp): functions that call ops/support/vector_math.hpp.
template <auto kFunction>
struct Whole : Each<kFunction> {
  static constexpr bool kWhole = true;
};

// The kernels of such a function of one or of two elements, for f32 and f64.
template <auto kFunction>
std::vector<Kernel> math_kernels() {
  if constexpr (std::is_invocable_v<decltype(kFunction), float, float>)
    return binary_kernels<Whole<kFunction>, float, double>();
  else
    return unary_kernels<Whole<kFunction>, float, double>();
}

// ---- gradients, written in a row ----

// The gradient of y = f(x): kFunction(x, y, dL/dy) is dL/dx.
template <auto kFunction>
std::vector<Output> dx(const GradientContext& ctx) {
  return {kFunction(ctx.input(0), ctx.output(0), ctx.output_gradient(0))};
}

// The gradients of c = f(a, b): kFunction(a, b, c, dL/dc) is {dL/da, dL/db}, each undone by
// undo_broadcast().
using Pair = std::vector<Output>;
template <auto kFunction>
Pair da_db(const GradientContext& ctx) {
  return kFunction(ctx.input(0), ctx.input(1), ctx.output(0), ctx.output_gradient(0));
}

// A function of steps passes nothing on, as in TensorFlow and PyTorch.
std::vector<Output> no_slope(const GradientContext& ctx);

// ---- rows: an Op without the fields that its kind has in common ----

Op unary(Op row);       // y = f(x), in place
Op binary(Op row);      // c = f(a, b), broadcasting, in place
Op predicate(Op row);   // y = f(x) as bool
Op comparison(Op row);  // c = f(a, b) as bool, broadcasting

// The node that a public function adds.
Output node_of(const char* op, std::vector<Output> inputs, Origin at);
Output node_of(const char* op, const Operand& a, const Operand& b, Origin at);

}  // namespace troupe

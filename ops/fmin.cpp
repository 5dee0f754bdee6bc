// Fmin: c = min(a, b), element-wise and broadcasting; of a number and NaN, the number. (Minimum
// gives NaN there.)
//   a, b: shapes that broadcast to that of c.
#include "ops/elementwise.hpp"
#include "ops/narrow.hpp"

namespace troupe {
namespace {

// Writing dc for dL/dc:  da = dc where a is chosen, else 0;  db = dc - da. Of equals, and of two
// NaN, a gets it all.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output a = ctx.input(0), b = ctx.input(1), dc = ctx.output_gradient(0);
  const Output b_wins = logical_and(logical_not(less_equal(a, b)), equal(b, b));
  const Output zero = constant_like(0, dc);
  return {undo_broadcast(where(b_wins, zero, dc), a), undo_broadcast(where(b_wins, dc, zero), b)};
}

struct Fmin {
  template <class T>
  static T apply(T a, T b) {
    return ((a <= b) | (b != b)) ? a : b;  // no branch, so that loops are vectorised
  }
};

}  // namespace

Op fmin_op() {
  return {.name = "Fmin",
          .inputs = {"a", "b"},
          .outputs = {"c"},
          .infer_shapes = infer_broadcast,
          .gradient = gradient,
          .kernels = with_i8(binary_kernels<Fmin, float, double, int32_t, int64_t, uint8_t>()),
          .in_place = true};
}

Output fmin(Output a, Output b, Origin at) {
  return add_node({.op = "Fmin", .inputs = {a, b}}, at);
}

}  // namespace troupe

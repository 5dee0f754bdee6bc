// Fmax: c = max(a, b), element-wise and broadcasting; of a number and NaN, the number. (Maximum
// gives NaN there.)
//   a, b: shapes that broadcast to that of c.
#include "ops/elementwise/choice.hpp"

namespace troupe {
namespace {

// Of equals, and of two NaN, a is chosen.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output a = ctx.input(0), b = ctx.input(1);
  return gradient_of_choice(ctx, logical_and(logical_not(greater_equal(a, b)), equal(b, b)));
}

struct Fmax {
  template <class T>
  static T apply(T a, T b) {
    return ((a >= b) | (b != b)) ? a : b;  // no branch, so that loops are vectorised
  }
};

}  // namespace

Op fmax_op() { return choice_op<Fmax>("Fmax", gradient); }

Output fmax(Output a, Output b, Origin at) {
  return add_node({.op = "Fmax", .inputs = {a, b}}, at);
}

}  // namespace troupe

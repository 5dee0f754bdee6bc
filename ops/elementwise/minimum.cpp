// Minimum: c = min(a, b), element-wise and broadcasting; NaN if either is NaN.
//   a, b: shapes that broadcast to that of c.
#include "ops/elementwise/choice.hpp"

namespace troupe {
namespace {

// Of equals, a is chosen.
std::vector<Output> gradient(const GradientContext& ctx) {
  return gradient_of_choice(ctx, less(ctx.input(1), ctx.input(0)));
}

}  // namespace

Op minimum_op() { return choice_op<Minimum>("Minimum", gradient); }

Output minimum(Output a, Output b, Origin at) {
  return add_node({.op = "Minimum", .inputs = {a, b}}, at);
}

}  // namespace troupe

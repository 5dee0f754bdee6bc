// builtin_ops: every op of the project, named once. A list and not a side effect: no linker drops
// one, and everybody can read it.
#include "ops/all.hpp"

namespace troupe {
namespace {

// clang-format off: one a line, sorted
constexpr Op (*kOps[])() = {
    add_op,      cast_op,   divide_op,        equal_op,    exp_op,    fill_op,  greater_op,
    identity_op, log_op,    maximum_op,       multiply_op, negate_op, relu_op,  sigmoid_op,
    sqrt_op,     square_op, stop_gradient_op, subtract_op, tanh_op,   where_op,
    with_gradient_op,
};
// clang-format on

}  // namespace

std::shared_ptr<const Registry> builtin_ops() {
  static const std::shared_ptr<const Registry> all = [] {
    auto registry = std::make_shared<Registry>();
    for (auto* op : kOps) registry->add(op());
    return registry;
  }();
  return all;
}

}  // namespace troupe

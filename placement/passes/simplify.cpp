// simplify: algebraic identities that keep every bit of every value: NaN with its payload, -0,
// infinities, subnormal numbers, integers that wrap around. (An exception: an op that computes
// makes a signalling NaN a quiet one. No op makes signalling ones, so only bit patterns of the
// program itself could show that the op was removed.) The identities hold for all values, and no op
// that might refuse its inputs is removed. kRules lists them with their reasons.
//
// Not included: x + 0 of floats (-0 + 0 is 0), x * 0 (NaN, infinities, -0), x - x and x / x (NaN,
// infinities, 0), other orders of a sum or product (they round differently), and any change that
// drops the read of a value whose shape alone is used, since a check may stand before that value.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>

#include "placement/passes/passes.hpp"
#include "placement/passes/transpose_order.hpp"

namespace troupe {
namespace {

// The graph as a rule sees it: nodes in their present state.
class Rules {
 public:
  explicit Rules(const CallGraph& call)
      : graph_(*call.graph), roles_(roles_of(call)), edits_(call) {}

  Edits run();

  // The present input of the node under consideration.
  Output input(const Node& node, size_t i) const { return edits_.now(node.inputs[i]); }
  // Readers get `to` instead of the node, unless a name, an order, or another device than that of
  // `to` (a fed value has none) prevents it. True: done.
  bool leave_out(const Node& node, const Output& to) {
    const Node& from = graph_.node(to.node);
    const bool together =
        roles(from).fed || (node.device == from.device && node.colocate_with == from.colocate_with);
    if (!together || !roles(node).free() || !node.control_inputs.empty() ||
        node.outputs[0] != from.outputs[static_cast<size_t>(to.index)])
      return false;
    edits_.forward(node, to);
    return true;
  }
  void change(const Node& node, std::vector<Output> inputs, Attrs attrs) {
    edits_.change(node, *node.op, std::move(inputs), std::move(attrs));
  }
  // The node that computes an input, if it is of that op, on the same device, not fed, and without
  // control inputs; else nullptr.
  const Node* inner(const Node& node, const Output& input, const char* op) const {
    const Node& from = edits_.node(input.node);
    const bool plain = from.op->name == op && !roles(from).fed && from.control_inputs.empty() &&
                       from.device == node.device;
    return plain ? &from : nullptr;
  }
  // True if all elements of a constant that is not fed and has no control inputs are this value,
  // bit for bit, and it does not widen `x`: each of its sizes is 1, or that of x.
  bool is_all(const Output& output, double value, const Output& x) const;

 private:
  const NodeRoles& roles(const Node& node) const { return roles_[static_cast<size_t>(node.id)]; }

  const Graph& graph_;
  const std::vector<NodeRoles> roles_;
  Edits edits_;
};

bool Rules::is_all(const Output& output, double value, const Output& x) const {
  const Node& from = edits_.node(output.node);
  if (from.op->name != "Constant" || roles(from).fed || !from.control_inputs.empty()) return false;
  const Tensor& tensor = from.attr<Tensor>("value");
  const Shape& wide = x.shape();
  if (tensor.ndim() > wide.ndim()) return false;
  for (int d = 0; d < tensor.ndim(); ++d)
    if (tensor.dim(d) != 1 && tensor.dim(d) != wide[wide.ndim() - tensor.ndim() + d]) return false;
  bool all = true;
  with_type(tensor.dtype(), [&]<class T>(T) {
    const auto wanted = std::bit_cast<std::array<char, sizeof(T)>>(static_cast<T>(value));
    const char* const bytes = static_cast<const char*>(tensor.raw());
    for (int64_t i = 0; i < tensor.size() && all; ++i)
      all = std::memcmp(bytes + i * static_cast<int64_t>(sizeof(T)), wanted.data(), sizeof(T)) == 0;
  });
  return all;
}

bool pass_on_input(Rules& r, const Node& node) { return r.leave_out(node, r.input(node, 0)); }

bool only_part(Rules& r, const Node& node) {
  return node.inputs.size() == 1 && r.leave_out(node, r.input(node, 0));
}

bool times_one(Rules& r, const Node& node) {
  const Output a = r.input(node, 0), b = r.input(node, 1);
  return (r.is_all(b, 1, a) && r.leave_out(node, a)) || (r.is_all(a, 1, b) && r.leave_out(node, b));
}

bool over_one(Rules& r, const Node& node) {
  const Output x = r.input(node, 0);
  return r.is_all(r.input(node, 1), 1, x) && r.leave_out(node, x);
}

bool minus_zero(Rules& r, const Node& node) {
  const Output x = r.input(node, 0);
  return r.is_all(r.input(node, 1), 0.0, x) && r.leave_out(node, x);
}

bool plus_nothing(Rules& r, const Node& node) {
  const double nothing = is_floating(node.outputs[0].dtype) ? -0.0 : 0.0;
  const Output a = r.input(node, 0), b = r.input(node, 1);
  return (r.is_all(b, nothing, a) && r.leave_out(node, a)) ||
         (r.is_all(a, nothing, b) && r.leave_out(node, b));
}

bool minus_minus(Rules& r, const Node& node) {
  const Node* first = r.inner(node, r.input(node, 0), "Negate");
  return first && r.leave_out(node, r.input(*first, 0));
}

// For known shapes only: an unknown one is checked when the step runs, and might be refused.
bool to_own_shape(Rules& r, const Node& node) {
  const Output x = r.input(node, 0);
  return x.shape().is_known() && r.leave_out(node, x);
}

bool reshape_twice(Rules& r, const Node& node) {
  if (to_own_shape(r, node)) return true;
  const Node* first = r.inner(node, r.input(node, 0), "Reshape");
  if (!first) return false;
  const Output x = r.input(*first, 0);
  if (!x.shape().is_known()) return false;
  if (!r.leave_out(node, x)) r.change(node, {x}, node.attrs);
  return true;
}

bool transpose_twice(Rules& r, const Node& node) {
  std::vector<int64_t> order = order_of(node);
  Output x = r.input(node, 0);
  const Node* first = r.inner(node, x, "Transpose");
  if (first) {
    const std::vector<int64_t> before = order_of(*first);
    for (int64_t& axis : order) axis = before[static_cast<size_t>(axis)];
    x = r.input(*first, 0);
  }
  if (std::is_sorted(order.begin(), order.end()) && r.leave_out(node, x)) return true;
  if (first) r.change(node, {x}, {{"permutation", order}});
  return first != nullptr;
}

// True if `to` has a distinct value for each value of `from`, so that a cast back restores it.
bool holds(DType to, DType from) {
  switch (from) {
    case DType::boolean:
      return to != DType::none;
    case DType::u8:
      return to == DType::i32 || to == DType::i64 || is_floating(to);
    case DType::i32:
      return to == DType::i64 || to == DType::f64;
    case DType::f32:
      return to == DType::f64;
    default:
      return false;
  }
}

bool cast_back(Rules& r, const Node& node) {
  if (r.leave_out(node, r.input(node, 0))) return true;
  const Node* first = r.inner(node, r.input(node, 0), "Cast");
  if (!first) return false;
  const Output x = r.input(*first, 0);
  return x.dtype() == node.outputs[0].dtype && holds(first->outputs[0].dtype, x.dtype()) &&
         r.leave_out(node, x);
}

// The rule for nodes of an op; leave_out() itself compares types.
struct Rule {
  const char* op;
  bool (*apply)(Rules&, const Node&);
};
constexpr Rule kRules[] = {
    {"Add", plus_nothing},          // x + -0 is x, also for x = 0 and -0; for integers, x + 0
    {"BroadcastTo", to_own_shape},  // to the shape that the value has
    {"Cast", cast_back},    // to its own dtype; or to a dtype that holds all its values, and back
    {"Concat", only_part},  // a single part
    {"Divide", over_one},   // x / 1: exact for all floats, and never refused for integers
    {"Identity", pass_on_input},      // its kernel passes the input on
    {"Multiply", times_one},          // x * 1: exact for all floats, and NaN stays the same NaN
    {"Negate", minus_minus},          // -(-x): the sign bit twice; integers wrap around twice
    {"Reshape", reshape_twice},       // elements keep their order, whatever the shape between
    {"StopGradient", pass_on_input},  // gradients have been built already
    {"Subtract", minus_zero},         // x - 0 is x, also for x = 0 and -0
    {"Transpose", transpose_twice},   // two become one, or none if that is the identity
    {"WithGradient", pass_on_input},  // as StopGradient
};

Edits Rules::run() {
  std::map<const Op*, const Rule*> rules;
  for (const Rule& rule : kRules)
    if (const Op* op = graph_.registry().find(rule.op)) rules[op] = &rule;
  for (const auto& node : graph_.nodes())
    if (const auto it = rules.find(node->op);
        it != rules.end() && roles(*node).runs && !roles(*node).fed)
      it->second->apply(*this, *node);
  return std::move(edits_);
}

}  // namespace

Edits simplify(const CallGraph& call) { return Rules(call).run(); }

}  // namespace troupe

// simplify: algebraic identities that keep every bit of every value: NaN with its payload, -0,
// infinities, subnormal numbers, integers that wrap around. (An exception: an op that computes
// makes a signalling NaN a quiet one. No op makes signalling ones, so only bit patterns of the
// program itself could show that the op was removed.) The identities hold for all values, and no op
// that might refuse its inputs is removed. Ops state them with their reasons (Identities).
//
// Not included: x + 0 of floats (-0 + 0 is 0), x * 0 (NaN, infinities, -0), x - x and x / x (NaN,
// infinities, 0), other orders of a sum or product (they round differently), and any change that
// drops the read of a value whose shape alone is used, since a check may stand before that value.
#include <array>
#include <bit>
#include <cstring>
#include <optional>

#include "graph/op_properties.hpp"
#include "placement/passes/passes.hpp"

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
  // The node that computes an input, if it is of the same op, on the same device, not fed, and
  // without control inputs; else nullptr.
  const Node* inner(const Node& node, const Output& input) const {
    const Node& from = edits_.node(input.node);
    const bool plain = from.op == node.op && !roles(from).fed && from.control_inputs.empty() &&
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
  const auto constant = properties_of(from).constant;
  if (!constant || roles(from).fed || !from.control_inputs.empty()) return false;
  const Tensor& tensor = constant(from);
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

// x with a neutral element is x.
void leave_out_neutral(Rules& r, const Node& node, const Identities::Neutral& neutral) {
  const double value = is_floating(node.outputs[0].dtype) ? neutral.real : neutral.integer;
  const Output a = r.input(node, 0), b = r.input(node, 1);
  if (r.is_all(b, value, a) && r.leave_out(node, a)) return;
  if (neutral.either_side && r.is_all(a, value, b)) r.leave_out(node, b);
}

// Two nodes of one op become one, or none.
void join_with_inner(Rules& r, const Node& node, const Identities& known) {
  const Node* inner = r.inner(node, r.input(node, 0));
  if (!inner) return;
  const Output x = r.input(*inner, 0);
  if (known.undoes(node, *inner) && r.leave_out(node, x)) return;
  if (!known.composed) return;
  if (std::optional<Attrs> attrs = known.composed(node, *inner))
    r.change(node, {x}, std::move(*attrs));
}

void try_all(Rules& r, const Node& node, const Identities& known) {
  if (known.passes_on && known.passes_on(node) && r.leave_out(node, r.input(node, 0))) return;
  if (known.neutral) leave_out_neutral(r, node, *known.neutral);
  if (known.undoes) join_with_inner(r, node, known);
}

Edits Rules::run() {
  for (const auto& node : graph_.nodes())
    if (node->op->properties && roles(*node).runs && !roles(*node).fed)
      try_all(*this, *node, node->op->properties->identities);
  return std::move(edits_);
}

}  // namespace

Edits simplify(const CallGraph& call) { return Rules(call).run(); }

}  // namespace troupe

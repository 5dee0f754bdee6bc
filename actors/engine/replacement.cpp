// Replacements: whether an op fits in place of a node's own, and its kernel put into the node.
#include "actors/engine/replacement.hpp"

#include <algorithm>

#include "devices/work.hpp"

namespace troupe {
namespace {

Error misfit(const Node& node, const Op& op, const std::string& what) {
  return Error(Errc::invalid_argument, "op ", op.name, " cannot take the place of the ",
               describe(node), ": ", what);
}

std::vector<TensorType> types_by(const Op& op, const InferContext& ctx) {
  const std::vector<Shape> shapes = op.infer_shapes ? op.infer_shapes(ctx) : std::vector<Shape>();
  std::vector<DType> dtypes;
  if (op.infer_dtypes)
    dtypes = op.infer_dtypes(ctx);
  else
    dtypes.assign(shapes.size(), ctx.input_count() > 0 ? ctx.dtype(0) : DType::none);
  std::vector<TensorType> out;
  for (size_t i = 0; i < std::min(shapes.size(), dtypes.size()); ++i)
    out.push_back({dtypes[i], shapes[i]});
  return out;
}

const Kernel& kernel_for(const Node& replaced, const Kernel& replaced_kernel, const Node& node,
                         DeviceKind device, const std::string& where) {
  const Kernel* kernel = find_kernel(node, device);
  if (!kernel)
    throw misfit(replaced, *node.op,
                 detail::concat("it has no kernel for ", dispatch_dtype(node), " on ", where));
  if (!kernel->run != !replaced_kernel.run)
    throw misfit(replaced, *node.op, "one kernel finishes at once, and the other later");
  return *kernel;
}

// The node of that name in the program of `node`; nullptr if there is none.
const Node* member_of(const Graph& program, const Node& node, const std::string& name) {
  const Node* found = program.find(name);
  return found && found->id >= static_cast<int32_t>(node.inputs.size()) ? found : nullptr;
}

// The op of a node with a program, whose member does what `op` does. What others have been replaced
// by stays. Throws: Error(invalid_argument) if `op` does not fit the member.
std::shared_ptr<const Op> op_with_member(const NodeView& view, const Node& member,
                                         const std::shared_ptr<const Op>& op, DeviceKind device,
                                         const std::string& where) {
  check_replacement(member, *op);
  Node node = member;
  node.op = op.get();
  kernel_for(member, *find_kernel(member, device), node, device, where);
  auto out = std::make_shared<Op>(*view.newest().node->op);
  if (op.get() == member.op)
    out->replaced.erase(member.name);
  else
    out->replaced[member.name] = op;
  return out;
}

bool same(const Kernel& a, const Kernel& b) {
  return a.device == b.device && a.dtype == b.dtype && a.run == b.run && a.start == b.start &&
         a.prepare == b.prepare;
}

// For ops that fit the same node.
bool same(const Op& a, const Op& b) {
  const auto alike = [](const auto& x, const auto& y) {
    return x.first == y.first && same(*x.second, *y.second);
  };
  return &a == &b ||
         (a.name == b.name &&
          std::equal(a.kernels.begin(), a.kernels.end(), b.kernels.begin(), b.kernels.end(),
                     [](const Kernel& x, const Kernel& y) { return same(x, y); }) &&
          std::equal(a.replaced.begin(), a.replaced.end(), b.replaced.begin(), b.replaced.end(),
                     alike));
}

}  // namespace

void check_replacement(const Node& node, const Op& op) {
  const Op& own = *node.op;
  const auto same_attr = [](const AttrSpec& a, const AttrSpec& b) {
    return a.name == b.name && a.kind == b.kind;
  };
  if (op.inputs.size() != own.inputs.size() || op.outputs.size() != own.outputs.size())
    throw misfit(
        node, op,
        detail::concat("it has ", op.inputs.size(), " inputs and ", op.outputs.size(),
                       " outputs instead of ", own.inputs.size(), " and ", own.outputs.size()));
  if (!std::equal(op.attrs.begin(), op.attrs.end(), own.attrs.begin(), own.attrs.end(), same_attr))
    throw misfit(node, op, "it has other attributes; give it those of " + own.name);
  if (op.stateful != own.stateful || op.value_shapes != own.value_shapes)
    throw misfit(node, op,
                 "one of them is stateful, or has shapes that depend on values, and the "
                 "other is not");
  std::vector<TensorType> inputs;
  for (const Output& input : node.inputs) inputs.push_back({input.dtype(), input.shape()});
  Node renamed = node;
  renamed.op = &op;
  const std::vector<TensorType> types = types_by(op, InferContext(renamed, std::move(inputs)));
  if (types == node.outputs) return;
  const auto text = [](const std::vector<TensorType>& list) {
    std::string out;
    for (const TensorType& type : list) out += (out.empty() ? "" : ", ") + detail::concat(type);
    return out.empty() ? "none" : out;
  };
  throw misfit(node, op,
               "its outputs would be " + text(types) + " instead of " + text(node.outputs));
}

std::shared_ptr<const Op> op_with_kernel(const Node& node, const Kernel& kernel) {
  if (!kernel.run == !kernel.start)
    throw Error(Errc::invalid_argument, "a kernel that takes the place of that of the ",
                describe(node), " has either `run` or `start`");
  auto op = std::make_shared<Op>(*node.op);
  op->kernels = {kernel};
  return op;
}

Replacement::Replacement(uint32_t index, const Node& replaced, const Kernel& replaced_kernel,
                         std::shared_ptr<const Op> new_op, DeviceKind device,
                         const std::string& where)
    : index(index), op(std::move(new_op)), node(replaced) {
  check_replacement(replaced, *op);
  node.op = op.get();
  view = NodeView::make(node, kernel_for(replaced, replaced_kernel, node, device, where));
}

std::unique_ptr<Replacement> make_replacement(const Program& program, DeviceKind kind,
                                              const std::string& name,
                                              const std::shared_ptr<const Op>& op) {
  const std::string& device = program.partition.device;
  for (uint32_t i = 0; i < program.nodes.firing.size(); ++i) {
    const NodeView* view = program.nodes.firing[i].view;
    if (!view) continue;
    const Graph* members = program_of(*view);
    const Node* member = members ? member_of(*members, *view->node, name) : nullptr;
    if (members ? !member : program.nodes.names[i] != name) continue;
    auto out = std::make_unique<Replacement>(
        i, *view->node, *view->kernel,
        member ? op_with_member(*view, *member, op, kind, device) : op, kind, device);
    out->view.lanes = view->lanes;
    out->view.label = view->label;
    return out;
  }
  return nullptr;
}

void Replacements::put(FiringNode& node, std::unique_ptr<Replacement> replacement) {
  std::lock_guard lock(mutex_);
  // Kernels that take turns are kept once.
  const auto known =
      std::find_if(all_.begin(), all_.end(), [&](const std::unique_ptr<Replacement>& other) {
        return other->index == replacement->index && same(*other->op, *replacement->op);
      });
  if (known == all_.end()) {
    node.view->replace_by(&replacement->view);
    all_.push_back(std::move(replacement));
  } else {
    node.view->replace_by(&(*known)->view);
  }
  if (node.kind == NodeKind::plain)
    node.run.store(KernelCall::run_newest, std::memory_order_release);
}

}  // namespace troupe

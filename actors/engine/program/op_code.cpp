// OpCode: made for a node, made again, and made for another op that fits the node.
#include "actors/engine/program/op_code.hpp"

#include <algorithm>

#include "devices/device.hpp"
#include "devices/work.hpp"
#include "graph/op.hpp"

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
                         const OpPlace& place) {
  const Kernel* kernel = find_kernel(node, place.kind);
  if (!kernel)
    throw misfit(
        replaced, *node.op,
        detail::concat("it has no kernel for ", dispatch_dtype(node), " on ", place.device));
  if (!kernel->run != !replaced_kernel.run)
    throw misfit(replaced, *node.op, "one kernel finishes at once, and the other later");
  return *kernel;
}

// The node of that name in the program of `node`; nullptr if there is none.
const Node* member_of(const Graph& program, const Node& node, const std::string& name) {
  const Node* found = program.find(name);
  return found && found->id >= static_cast<int32_t>(node.inputs.size()) ? found : nullptr;
}

// The op of a node that does the work of several, whose member does what `op` does. The ops that
// have replaced other members stay. Throws: Error(invalid_argument) if `op` does not fit the
// member.
std::shared_ptr<const Op> op_with_member(const Node& whole, const Node& member,
                                         const std::shared_ptr<const Op>& op,
                                         const OpPlace& place) {
  check_replacement(member, *op);
  Node node = member;
  node.op = op.get();
  kernel_for(member, *find_kernel(member, place.kind), node, place);
  auto out = std::make_shared<Op>(*whole.op);
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

OpCode::OpCode(const Node& node, const Kernel& kernel) : view(NodeView::make(node, kernel)) {}

OpCode::OpCode(const NodeView& earlier, std::shared_ptr<const Op> new_op, const Node& node,
               const Kernel& kernel)
    : op(std::move(new_op)),
      changed(std::make_unique<const Node>(node)),
      view(NodeView::make(*changed, kernel)) {
  view.lanes = earlier.lanes;
  view.label = earlier.label;
}

class OpCodes::Block {
 public:
  explicit Block(size_t most) : most_(most), codes_(std::allocator<OpCode>().allocate(most)) {}
  ~Block() {
    std::destroy_n(codes_, made_);
    std::allocator<OpCode>().deallocate(codes_, most_);
  }
  Block(const Block&) = delete;
  OpCode* make(const Node& node, const Kernel& kernel) {
    TROUPE_CHECK(made_ < most_, "a block of ", most_, " codes is full");
    OpCode* const code = std::construct_at(codes_ + made_, node, kernel);
    ++made_;
    return code;
  }

 private:
  const size_t most_;
  OpCode* const codes_;
  size_t made_ = 0;
};

OpCodes::OpCodes(size_t most) : block_(std::make_shared<Block>(most)) {}

std::shared_ptr<OpCode> OpCodes::make(const Node& node, const Kernel& kernel) {
  return {block_, block_->make(node, kernel)};
}

OpCodePtr prepared_again(const OpCode& code) {
  return std::make_shared<OpCode>(code.view, code.op, *code.view.node, *code.view.kernel);
}

bool does_work_of(const NodeView& code, const std::string& name) {
  const Graph* members = program_of(code);
  return members ? member_of(*members, *code.node, name) != nullptr : code.node->name == name;
}

OpCodePtr with_op(const NodeView& code, const std::string& name,
                  const std::shared_ptr<const Op>& op, const OpPlace& place) {
  const Node& before = *code.node;
  const Graph* members = program_of(code);
  const Node* member = members ? member_of(*members, before, name) : nullptr;
  const std::shared_ptr<const Op> wanted = member ? op_with_member(before, *member, op, place) : op;
  check_replacement(before, *wanted);
  Node node = before;
  node.op = wanted.get();
  return std::make_shared<OpCode>(code, wanted, node,
                                  kernel_for(before, *code.kernel, node, place));
}

bool same(const OpCode& a, const OpCode& b) { return same(*a.view.node->op, *b.view.node->op); }

}  // namespace troupe

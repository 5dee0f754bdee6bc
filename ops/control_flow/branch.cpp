// Branch: opens the frame of one branch of a choice. taken = (index is `branch`); the last of
// `branches` is also taken for every index out of range; `otherwise` inverts the result. A bool
// counts as 0 or 1.
//   index: [] bool, i32 or i64   taken: [] bool
// The nodes of the frame run if `taken`, otherwise they are dead.
#include "graph/op.hpp"
#include "ops/support/node.hpp"
#include "troupe/ops/control_flow.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  if (ctx.input(0).ndim() != 0)
    throw ctx.error("wants a scalar that says which branch runs, got ", ctx.input(0),
                    "; reduce it to one");
  const auto branches = ctx.attr<int64_t>("branches"), branch = ctx.attr<int64_t>("branch");
  if (branch < 0 || branch >= branches)
    throw ctx.error("wants a branch from 0 to ", branches - 1, ", got ", branch);
  return {Shape{}};
}

struct Choice final : KernelState {
  explicit Choice(const Node& node)
      : branch(node.attr<int64_t>("branch")),
        branches(node.attr<int64_t>("branches")),
        otherwise(node.attr<bool>("otherwise")) {}
  const int64_t branch, branches;
  const bool otherwise;
};

std::unique_ptr<KernelState> prepare(const Node& node) { return std::make_unique<Choice>(node); }

template <class T>
void cpu(KernelContext& ctx) {
  const auto& choice = ctx.state<Choice>();
  const auto index = static_cast<int64_t>(*ctx.input(0).data<T>());
  const bool known = index >= 0 && index < choice.branches;
  const bool taken = index == choice.branch || (!known && choice.branch == choice.branches - 1);
  ctx.output(0).mutable_data<bool>()[0] = taken != choice.otherwise;
}

template <class T>
Kernel kernel() {
  return {DeviceKind::cpu, dtype_of<T>, cpu<T>, nullptr, prepare};
}

constexpr OpProperties kProperties = {
    .frame = {.index = [](const Node& node) { return node.attr<int64_t>("branch"); },
              .branches = [](const Node& node) { return node.attr<int64_t>("branches"); }}};

}  // namespace

Op branch_op() {
  return {.name = "Branch",
          .inputs = {"index"},
          .outputs = {"taken"},
          .attrs = {{"branch", AttrKind::integer},
                    {"branches", AttrKind::integer},
                    {"otherwise", AttrKind::boolean, false}},
          .infer_dtypes = [](const InferContext&) { return std::vector<DType>{DType::boolean}; },
          .infer_shapes = infer_shapes,
          .no_gradient = "a choice has none; gradients go through what the branches compute",
          .kernels = {kernel<bool>(), kernel<int32_t>(), kernel<int64_t>()},
          .control = ControlKind::branch,
          .value_shapes = true,  // the host reads the value of `taken`
          .properties = &kProperties};
}

}  // namespace troupe

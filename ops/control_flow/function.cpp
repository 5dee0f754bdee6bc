// Function: opens the frame of a function's body (troupe/ops/control_flow.hpp). No inputs, no
// outputs. `arguments` and `results` are lists of types, "f32[2, -1] i64[]"; empty `results`:
// unknown until there is a body. A function that a program defines is a pattern, which never runs.
// `of` names the pattern of which this function is a running copy; a copy reads nothing from its
// surroundings. `gradient_of` names the function that this one differentiates. `path` is the index
// of the argument with the call's path (troupe/ops/control_flow.hpp), or -1.
#include "graph/op.hpp"
#include "ops/support/node.hpp"
#include "ops/elementwise/type_list.hpp"

namespace troupe {
namespace {

constexpr int64_t kDepthMax = 1'000'000'000;

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  for (const char* list : {"arguments", "results"})
    if (!types_of(ctx.attr<std::string>(list)))
      throw ctx.error("attribute ", list, " is no list of types: \"", ctx.attr<std::string>(list),
                      "\"; write \"f32[2, -1] i64[]\"");
  const auto depth = ctx.attr<int64_t>("depth_max");
  if (depth < 1 || depth > kDepthMax)
    throw ctx.error("wants a depth_max from 1 to ", kDepthMax, ", got ", depth);
  return {};
}

void cpu(KernelContext&) {}

constexpr OpProperties kProperties = {
    .frame = {.at_most = [](const Node& node) { return node.attr<int64_t>("depth_max"); }}};

}  // namespace

Op function_op() {
  return {.name = "Function",
          .attrs = {{"arguments", AttrKind::text},
                    {"results", AttrKind::text, std::string()},
                    {"depth_max", AttrKind::integer, int64_t{100'000}},
                    {"of", AttrKind::text, std::string()},
                    {"gradient_of", AttrKind::text, std::string()},
                    {"path", AttrKind::integer, int64_t{-1}}},
          .infer_shapes = infer_shapes,
          .no_gradient = "it has no outputs",
          .kernels = {{DeviceKind::cpu, DType::none, cpu}},
          .dispatch = -1,
          .control = ControlKind::function,
          .properties = &kProperties};
}

}  // namespace troupe

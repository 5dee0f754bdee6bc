// Loop: opens the frame of a loop's iterations. No inputs, no outputs: it completes when the loop
// may begin.
#include "graph/op.hpp"
#include "ops/support/node.hpp"

namespace troupe {
namespace {

// Limits the iterations in flight: values from a device that is ahead wait in the memory of slower
// devices.
constexpr int64_t kInFlightMax = 1024;

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const auto in_flight = ctx.attr<int64_t>("iterations_in_flight");
  if (in_flight < 1 || in_flight > kInFlightMax)
    throw ctx.error("wants 1 to ", kInFlightMax, " iterations in flight, got ", in_flight);
  return {};
}

void cpu(KernelContext&) {}

constexpr OpProperties kProperties = {.frame = {.at_most = [](const Node& node) {
                                        return node.attr<int64_t>("iterations_in_flight");
                                      }}};

}  // namespace

Op loop_op() {
  return {.name = "Loop",
          .attrs = {{"iterations_in_flight", AttrKind::integer, int64_t{1}},
                    {"recompute", AttrKind::boolean, false}},
          .infer_shapes = infer_shapes,
          .no_gradient = "it has no outputs",
          .kernels = {{DeviceKind::cpu, DType::none, cpu}},
          .dispatch = -1,
          .control = ControlKind::loop,
          .precision = Precision::kept,
          .properties = &kProperties};
}

}  // namespace troupe

// Small ops for tests of devices: each is one behaviour of a kernel. And LaunchedNode, which fires
// one node on one device.
#pragma once

#include <memory>
#include <vector>

#include "devices/device.hpp"
#include "devices/run_context.hpp"
#include "graph/op.hpp"
#include "troupe/op.hpp"

namespace troupe {

inline std::shared_ptr<const Registry> small_ops() {
  const auto of_shape_attr = [](const InferContext& ctx) {
    return std::vector<Shape>{ctx.attr<Shape>("shape")};
  };
  const auto f32 = [](const InferContext&) { return std::vector<DType>{DType::f32}; };
  const auto same = [](const InferContext& ctx) { return std::vector<Shape>{ctx.input(0)}; };
  const auto twice = [](const InferContext& ctx) {
    return std::vector<Shape>{ctx.input(0), ctx.input(0)};
  };
  const auto unknown = [](const InferContext&) { return std::vector<Shape>{Shape{-1}}; };

  // y of the shape of x.
  const auto unary = [&](std::string name, Kernel kernel) {
    return Op{.name = std::move(name),
              .inputs = {"x"},
              .outputs = {"y"},
              .infer_shapes = same,
              .kernels = {std::move(kernel)}};
  };
  auto registry = std::make_shared<Registry>();
  // A value from outside, f32, of the shape it is told.
  registry->add({.name = "Feed",
                 .outputs = {"y"},
                 .attrs = {{"shape", AttrKind::shape}},
                 .infer_dtypes = f32,
                 .infer_shapes = of_shape_attr});
  // y = x + 1, over x where that is allowed.
  registry->add({.name = "AddOne",
                 .inputs = {"x"},
                 .outputs = {"y"},
                 .infer_shapes = same,
                 .kernels = {{DeviceKind::cpu, DType::f32,
                              [](KernelContext& ctx) {
                                const float* x = ctx.input(0).data<float>();
                                const int64_t n = ctx.input(0).size();
                                float* y = ctx.output_in_place().mutable_data<float>();
                                for (int64_t i = 0; i < n; ++i) y[i] = x[i] + 1;
                              }}},
                 .in_place = true});
  // y = -x, z = 2 x.
  registry->add({.name = "Pair",
                 .inputs = {"x"},
                 .outputs = {"y", "z"},
                 .infer_shapes = twice,
                 .kernels = {{DeviceKind::cpu, DType::f32, [](KernelContext& ctx) {
                                const float* x = ctx.input(0).data<float>();
                                float* y = ctx.output(0).mutable_data<float>();
                                float* z = ctx.output(1).mutable_data<float>();
                                for (int64_t i = 0; i < ctx.input(0).size(); ++i) {
                                  y[i] = -x[i];
                                  z[i] = 2 * x[i];
                                }
                              }}}});
  // y is x itself; Alias says so to the device, Pass does not.
  const auto pass = [](KernelContext& ctx) { ctx.set_output(0, ctx.input(0)); };
  registry->add({.name = "Alias",
                 .inputs = {"x"},
                 .outputs = {"y"},
                 .infer_shapes = same,
                 .kernels = {{DeviceKind::cpu, DType::none, pass}},
                 .aliases = true});
  registry->add(unary("Pass", {DeviceKind::cpu, DType::none, pass}));
  // Throws.
  registry->add(unary("Fail", {DeviceKind::cpu, DType::none,
                               [](KernelContext& ctx) { throw ctx.error("cannot be done"); }}));
  // y = the positive elements of x: its shape depends on values.
  registry->add({.name = "Positive",
                 .inputs = {"x"},
                 .outputs = {"y"},
                 .infer_shapes = unknown,
                 .kernels = {{DeviceKind::cpu, DType::f32, [](KernelContext& ctx) {
                                const auto x = ctx.input(0).values<float>();
                                const auto positive = [](float v) { return v > 0; };
                                Tensor& y = ctx.output(
                                    0, Shape{std::count_if(x.begin(), x.end(), positive)});
                                std::copy_if(x.begin(), x.end(), y.mutable_data<float>(), positive);
                              }}}});
  // Asks for an output of a shape that the graph does not allow.
  registry->add(unary("WrongShape", {DeviceKind::cpu, DType::none,
                                     [](KernelContext& ctx) { ctx.output(0, Shape{77}); }}));
  // A kernel that finishes later.
  registry->add(unary(
      "Later", {.device = DeviceKind::cpu,
                .start = [](std::shared_ptr<AsyncContext> ctx) { ctx->done({ctx->input(0)}); }}));
  return registry;
}

// Node "OP" with one input "Feed" of the given static shape, and one firing of it on a device.
struct LaunchedNode {
  LaunchedNode(const std::string& op, const Shape& static_shape)
      : node(graph.node(
            graph.add({op, {graph.add({"Feed", {}, {{"shape", static_shape}}})}}).node)) {}

  // `input` may be written over if may_reuse says so and no other handle is left.
  std::vector<Tensor> launch(Device& device, Tensor input, bool may_reuse = false) {
    view = NodeView::make(node, *find_kernel(node, DeviceKind::cpu));
    values = {std::move(input)};
    std::vector<Tensor> outputs(view.outputs.size());
    const uint32_t slot = 0;
    KernelCall call;
    call.bind(view, values.data(), &slot, 1, outputs.data(), device.memory(), step, may_reuse);
    device.launch(call);
    return outputs;
  }

  Graph graph{small_ops()};
  const Node& node;
  NodeView view;
  RunContext step;
  std::vector<Tensor> values;
};

}  // namespace troupe

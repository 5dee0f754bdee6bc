// Toy ops: a small registry for tests of graphs, passes and placement that must not depend on the
// real ops. No toy has a kernel that computes; what runs is tested with the real ops.
#pragma once

#include <memory>

#include "troupe/graph.hpp"
#include "troupe/op.hpp"

namespace troupe {
namespace toy {

inline std::vector<DType> dtype_attr(const InferContext& ctx) { return {ctx.attr<DType>("dtype")}; }
inline std::vector<Shape> shape_attr(const InferContext& ctx) { return {ctx.attr<Shape>("shape")}; }
inline std::vector<Shape> like_input(const InferContext& ctx) { return {ctx.input(0)}; }

inline std::vector<Shape> same_shapes(const InferContext& ctx) {
  if (ctx.input(0) != ctx.input(1))
    throw ctx.error("shapes differ: ", ctx.input(0), " and ", ctx.input(1));
  return {ctx.input(0)};
}

inline std::vector<Shape> matrix_product(const InferContext& ctx) {
  const Shape &a = ctx.input(0), &b = ctx.input(1);
  if (a.ndim() != 2 || b.ndim() != 2) throw ctx.error("wants two matrices, got ", a, " and ", b);
  if (a[1] != b[0] && a[1] >= 0 && b[0] >= 0)
    throw ctx.error("inner sizes differ: ", a, " times ", b);
  return {Shape{a[0], b[1]}};
}

inline std::vector<Output> pass_twice(const GradientContext& ctx) {
  return {ctx.output_gradient(0), ctx.output_gradient(0)};
}
inline std::vector<Output> pass_nothing(const GradientContext&) { return {Output()}; }
inline std::vector<Output> product_rule(const GradientContext& ctx) {
  const Output dy = ctx.output_gradient(0);
  return {ctx.graph().add({.op = "Mul", .inputs = {dy, ctx.input(1)}}),
          ctx.graph().add({.op = "Mul", .inputs = {dy, ctx.input(0)}})};
}

inline void nothing(KernelContext&) {}

}  // namespace toy

inline std::shared_ptr<const Registry> toy_ops() {
  static const std::shared_ptr<const Registry> all = [] {
    auto registry = std::make_shared<Registry>();
    const std::vector<Kernel> cpu = {{DeviceKind::cpu, DType::none, toy::nothing}};
    registry->add({.name = "Source",
                   .outputs = {"y"},
                   .attrs = {{"dtype", AttrKind::dtype, Attr(DType::f32)},
                             {"shape", AttrKind::shape, Attr(Shape{2})}},
                   .infer_dtypes = toy::dtype_attr,
                   .infer_shapes = toy::shape_attr,
                   .kernels = cpu});
    registry->add({.name = "Add",
                   .inputs = {"a", "b"},
                   .outputs = {"c"},
                   .infer_shapes = toy::same_shapes,
                   .gradient = toy::pass_twice,
                   .kernels = cpu});
    registry->add({.name = "Mul",
                   .inputs = {"a", "b"},
                   .outputs = {"c"},
                   .infer_shapes = toy::same_shapes,
                   .gradient = toy::product_rule,
                   .kernels = {{DeviceKind::cpu, DType::none, toy::nothing},
                               {DeviceKind::cuda, DType::f32, toy::nothing}}});
    registry->add({.name = "MatMul",
                   .inputs = {"a", "b"},
                   .outputs = {"c"},
                   .attrs = {{"transpose_a", AttrKind::boolean, Attr(false)},
                             {"transpose_b", AttrKind::boolean, Attr(false)},
                             {"scale", AttrKind::real, Attr(1.0)}},
                   .infer_shapes = toy::matrix_product,
                   .kernels = {{DeviceKind::cpu, DType::f32, toy::nothing},
                               {DeviceKind::cpu, DType::f64, toy::nothing}}});
    registry->add({.name = "Stop",
                   .inputs = {"x"},
                   .outputs = {"y"},
                   .infer_shapes = toy::like_input,
                   .gradient = toy::pass_nothing,
                   .kernels = cpu});
    registry->add({.name = "Round",
                   .inputs = {"x"},
                   .outputs = {"y"},
                   .infer_shapes = toy::like_input,
                   .no_gradient = "it is flat between its jumps",
                   .kernels = cpu});
    registry->add({.name = "Halves",  // two outputs of an own number
                   .inputs = {"x"},
                   .outputs = {"y..."},
                   .infer_shapes =
                       [](const InferContext& ctx) { return std::vector<Shape>(2, ctx.input(0)); },
                   .kernels = cpu});
    registry->add({.name = "Concat",
                   .inputs = {"x..."},
                   .outputs = {"y"},
                   .attrs = {{"axis", AttrKind::integer}},
                   .infer_shapes = toy::like_input,
                   .kernels = cpu});
    registry->add(
        {.name = "Draw",  // reads the replica of its scope
         .outputs = {"y"},
         .attrs = {{"replica", AttrKind::integer, Attr(int64_t{0})}},
         .infer_dtypes = [](const InferContext&) { return std::vector<DType>{DType::f32}; },
         .infer_shapes = [](const InferContext&) { return std::vector<Shape>{Shape{2}}; },
         .kernels = cpu,
         .stateful = true});
    registry->add({.name = "Sink", .inputs = {"x"}, .kernels = cpu});
    registry->add({.name = "Everything",  // an attribute of each kind
                   .attrs = {{"b", AttrKind::boolean},
                             {"d", AttrKind::dtype},
                             {"i", AttrKind::integer},
                             {"l", AttrKind::integers},
                             {"r", AttrKind::real},
                             {"s", AttrKind::shape},
                             {"t", AttrKind::text},
                             {"v", AttrKind::tensor}},
                   .kernels = cpu});
    return registry;
  }();
  return all;
}

// A node of no inputs. Shape [2] and f32 unless said otherwise.
inline Output source(Graph& graph, std::string_view name, Shape shape = {2},
                     DType dtype = DType::f32) {
  return graph.add({.op = "Source", .attrs = {{"dtype", dtype}, {"shape", shape}}, .name = name},
                   {"train.cpp", 1});
}
inline Output apply(Graph& graph, std::string_view op, std::vector<Output> inputs,
                    std::string_view name = {}, Attrs attrs = {}) {
  return graph.add({.op = op, .inputs = std::move(inputs), .attrs = std::move(attrs), .name = name},
                   {"train.cpp", 42});
}

// The text of the Error that `f` throws; empty if it throws none.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

}  // namespace troupe

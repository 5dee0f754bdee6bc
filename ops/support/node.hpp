// Shared by the op functions: adds nodes, refuses dtypes without a kernel, and common shape and
// dtype rules.
#pragma once

#include <span>

#include "graph/op_properties.hpp"
#include "troupe/op.hpp"

namespace troupe {

// Adds a node to the graph of its inputs. Throws: Error(invalid_argument), also if no input is
// defined.
inline Output add_node(NodeSpec spec, Origin at) {
  for (const Output& input : spec.inputs)
    if (input.defined()) return input.graph->add(std::move(spec), at);
  throw Error(Errc::invalid_argument, spec.op, " made at ", at.file, ":", at.line,
              ": its inputs are undefined Outputs; pass the results of ops");
}

// All outputs of a node, given its first one.
inline std::vector<Output> all_outputs(Output first) {
  std::vector<Output> outputs;
  const int32_t count = static_cast<int32_t>(first.graph->node(first.node).outputs.size());
  for (int32_t i = 0; i < count; ++i) outputs.push_back({first.graph, first.node, i});
  return outputs;
}

// For infer_shapes. Throws: Error(invalid_argument) with the dtypes of the op's kernels, if `dtype`
// is not one of them.
inline void require_kernel(const InferContext& ctx, DType dtype) {
  std::string known;
  for (const Kernel& kernel : ctx.node().op->kernels) {
    if (kernel.dtype == dtype || kernel.dtype == DType::none) return;
    if (kernel.device == DeviceKind::cpu)
      known += (known.empty() ? "" : ", ") + std::string(to_string(kernel.dtype));
  }
  throw ctx.error("has no kernel for ", dtype, "; cast to one of ", known);
}

// The shape [first..., rest...], and the shape of that many rows.
inline Shape joined_sizes(std::span<const int64_t> first, std::span<const int64_t> rest) {
  std::vector<int64_t> sizes(first.begin(), first.end());
  sizes.insert(sizes.end(), rest.begin(), rest.end());
  return Shape(sizes);
}
inline Shape shape_with_rows(int64_t rows, std::span<const int64_t> row) {
  return joined_sizes(std::span<const int64_t>(&rows, 1), row);
}
// The sizes of x from dimension `d` on.
inline std::span<const int64_t> sizes_from(const Shape& x, int d) {
  return x.dims().subspan(static_cast<size_t>(d));
}
// True if the first sizes of x may be those of `first`.
inline bool begins_with(const Shape& x, const Shape& first) {
  bool fits = x.ndim() >= first.ndim();
  for (int d = 0; fits && d < first.ndim(); ++d) fits = may_equal(first[d], x[d]);
  return fits;
}

// infer_shapes for an op with one output of input 0's shape.
inline std::vector<Shape> infer_same_shape(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  return {ctx.input(0)};
}

// The kernel of an op whose output is its input.
inline void pass_on(KernelContext& ctx) { ctx.set_output(0, ctx.input(0)); }
inline constexpr OpProperties kPassesOn = {
    .identities = {.passes_on = [](const Node&) { return true; }}};

// The properties of an op without inputs that makes other values in each step.
inline constexpr OpProperties kDraws = {.draws = true};

// infer_dtypes for an op with one output: of the dtype that attribute `dtype` gives, of i64, and of
// the dtype of input 0, whatever the others are.
inline std::vector<DType> infer_dtype_attr(const InferContext& ctx) {
  return {ctx.attr<DType>("dtype")};
}
inline std::vector<DType> infer_i64(const InferContext&) { return {DType::i64}; }
inline std::vector<DType> infer_dtype_of_first(const InferContext& ctx) { return {ctx.dtype(0)}; }

// Kernels on a CPU that differ in the dtype alone.
using RunKernel = void (*)(KernelContext&);
inline std::vector<Kernel> float_kernels(RunKernel f32, RunKernel f64) {
  return {{.dtype = DType::f32, .run = f32}, {.dtype = DType::f64, .run = f64}};
}
inline std::vector<Kernel> index_kernels(RunKernel i32, RunKernel i64) {
  return {{.dtype = DType::i32, .run = i32}, {.dtype = DType::i64, .run = i64}};
}
inline std::vector<Kernel> number_kernels(RunKernel f32, RunKernel f64, RunKernel i32,
                                          RunKernel i64) {
  std::vector<Kernel> kernels = float_kernels(f32, f64);
  for (const Kernel& kernel : index_kernels(i32, i64)) kernels.push_back(kernel);
  return kernels;
}
inline std::vector<Kernel> number_kernels(RunKernel f32, RunKernel f64, RunKernel i32,
                                          RunKernel i64, RunKernel u8) {
  std::vector<Kernel> kernels = number_kernels(f32, f64, i32, i64);
  kernels.push_back({.dtype = DType::u8, .run = u8});
  return kernels;
}

// For kernels of several inputs: applies the op's shape rule to the actual shapes if some sizes
// were unknown before. This is the only such check for an output of known shape. Throws: the errors
// of infer_shapes.
inline void check_actual_shapes(const KernelContext& ctx) {
  const Node& node = ctx.node();
  bool known = true;
  for (const Output& input : node.inputs) known = known && input.shape().is_known();
  if (known) return;
  std::vector<TensorType> types;
  for (int i = 0; i < ctx.input_count(); ++i)
    types.push_back({ctx.input(i).dtype(), ctx.input(i).shape()});
  node.op->infer_shapes(InferContext(node, std::move(types)));
}

}  // namespace troupe

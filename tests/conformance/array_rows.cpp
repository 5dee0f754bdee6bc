// Rows of ONNX's ops that make, move, split and join elements.
#include <algorithm>
#include <numeric>

#include "tests/conformance/mapping.hpp"

namespace troupe {
namespace {

std::vector<Output> constant_row(const NodeCall& c) {
  if (const onnx::Attribute* value = c.find("value"))
    return {constant(c.graph, tensor_of_onnx(value->t()))};
  if (const onnx::Attribute* number = c.find("value_float"))
    return {constant(c.graph, Tensor::scalar(number->f()))};
  if (const onnx::Attribute* number = c.find("value_int"))
    return {constant(c.graph, Tensor::scalar(number->i()))};
  if (c.has_attr("value_ints")) return {integer_constant(c.graph, c.integers("value_ints"))};
  if (const onnx::Attribute* numbers = c.find("value_floats")) {
    const std::vector<float> values(numbers->floats().begin(), numbers->floats().end());
    return {constant(c.graph, Tensor::of(std::span<const float>(values),
                                         {static_cast<int64_t>(values.size())}))};
  }
  throw NotCovered{"a constant of another kind"};
}

std::vector<Output> constant_of_shape_row(const NodeCall& c) {
  const Shape shape(c.integers(c.input(0)));
  const onnx::Attribute* value = c.find("value");
  if (!value) return {fill(c.graph, shape, 0)};
  const Tensor one = tensor_of_onnx(value->t());
  const Output number = constant(c.graph, one.reshaped({}));
  return {fill(c.graph, shape, c.number(number), one.dtype())};
}

std::vector<Output> eye_like_row(const NodeCall& c) {
  const Shape shape = c.shape(c.input(0));
  const DType dtype = c.has_attr("dtype") ? dtype_of_onnx(static_cast<int>(c.integer("dtype", 1)))
                                          : c.input(0).dtype();
  const int64_t k = c.integer("k", 0);
  if (k == 0) return {eye(c.graph, shape[0], shape[1], dtype)};
  return {tril(triu(fill(c.graph, shape, 1, dtype), k), k)};
}

std::vector<Output> shape_row(const NodeCall& c) {
  const Output sizes = shape_of(c.input(0));
  return {
      strided_slice(sizes, {c.integer("start", 0)}, {c.integer("end", c.input(0).shape().ndim())})};
}

std::vector<Output> reshape_row(const NodeCall& c) {
  std::vector<int64_t> dims = c.integers("shape", 1);
  if (c.integer("allowzero", 0) == 0)
    for (size_t i = 0; i < dims.size(); ++i)
      if (dims[i] == 0) dims[i] = c.shape(c.input(0))[static_cast<int>(i)];
  return {reshape(c.input(0), Shape(dims))};
}

std::vector<Output> flatten_row(const NodeCall& c) {
  const Shape shape = c.shape(c.input(0));
  const auto axis = static_cast<size_t>(axis_of(c.integer("axis", 1), shape.ndim()));
  const auto dims = shape.dims();
  const auto product = [](std::span<const int64_t> part) {
    return std::accumulate(part.begin(), part.end(), int64_t{1}, std::multiplies<>());
  };
  return {reshape(c.input(0), {product(dims.first(axis)), product(dims.subspan(axis))})};
}

std::vector<Output> unsqueeze_row(const NodeCall& c) {
  std::vector<int64_t> axes = c.integers("axes", 1);
  Output x = c.input(0);
  const int64_t ndim = x.shape().ndim() + static_cast<int64_t>(axes.size());
  for (int64_t& axis : axes) axis = axis_of(axis, ndim);
  std::sort(axes.begin(), axes.end());
  for (const int64_t axis : axes) x = expand_dims(x, axis);
  return {x};
}

std::vector<Output> split_row(const NodeCall& c) {
  const Output x = c.input(0);
  const int64_t axis = axis_of(c.integer("axis", 0), x.shape().ndim());
  const std::vector<int64_t> sizes = c.integers("split", 1);
  if (sizes.empty()) return split(x, c.node.output_size(), axis);
  std::vector<Output> parts;
  std::vector<int64_t> begin(static_cast<size_t>(x.shape().ndim()), 0);
  for (const int64_t size : sizes) {
    std::vector<int64_t> box(begin.size(), -1);
    box[static_cast<size_t>(axis)] = size;
    parts.push_back(slice(x, begin, box));
    begin[static_cast<size_t>(axis)] += size;
  }
  return parts;
}

// Rows from number `start` to `end`, both [1]; their values are known only in a step.
Output rows_between(Output x, Output start, Output end) {
  const Output one = number_like(start, 1);
  return gather(x, range(reshape(start, {}), reshape(end, {}), one));
}

std::vector<Output> slice_row(const NodeCall& c) {
  const Output x = c.input(0);
  if (c.has_input(1) && !(c.is_fixed(c.input(1)) && c.is_fixed(c.input(2)))) {
    if (c.has_input(3) || c.input(1).shape() != Shape{1})
      throw NotCovered{"a slice of several axes that only a step knows"};
    return {rows_between(x, c.input(1), c.input(2))};
  }
  const auto ndim = static_cast<size_t>(x.shape().ndim());
  const std::vector<int64_t> starts = c.integers("starts", 1), ends = c.integers("ends", 2);
  std::vector<int64_t> axes = c.integers("axes", 3);
  const std::vector<int64_t> steps = or_ones(c.integers("steps", 4), starts.size());
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  std::vector<int64_t> begin(ndim, 0), end(ndim, 0);
  StridedSliceOptions options;
  options.strides.assign(ndim, 1);
  options.begin_mask = options.end_mask = (int64_t{1} << ndim) - 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto d = static_cast<size_t>(axis_of(axes[i], static_cast<int64_t>(ndim)));
    begin[d] = starts[i];
    end[d] = ends[i];
    options.strides[d] = steps[i];
    options.begin_mask &= ~(int64_t{1} << d);
    options.end_mask &= ~(int64_t{1} << d);
  }
  return {strided_slice(x, begin, end, options)};
}

// Both shapes broadcast.
std::vector<Output> expand_row(const NodeCall& c) {
  const std::vector<int64_t> wanted = c.integers(c.input(1));
  const Shape have = c.shape(c.input(0));
  std::vector<int64_t> dims(std::max(wanted.size(), static_cast<size_t>(have.ndim())), 1);
  for (size_t i = 0; i < wanted.size(); ++i) dims[dims.size() - wanted.size() + i] = wanted[i];
  for (int i = 0; i < have.ndim(); ++i) {
    int64_t& size = dims[dims.size() - static_cast<size_t>(have.ndim() - i)];
    if (size == 1) size = have[i];
  }
  return {broadcast_to(c.input(0), Shape(dims))};
}

std::vector<Output> pad_row(const NodeCall& c) {
  const std::vector<int64_t> pads = c.integers("pads", 1);
  const std::string mode = c.text("mode", "constant");
  PadOptions options;
  if (mode == "reflect") options.mode = PadMode::reflect;
  if (mode == "edge") options.mode = PadMode::edge;
  options.value = c.has_input(2) ? c.number(c.input(2)) : c.real("value", 0);
  const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(pads.size() / 2);
  return {pad(c.input(0), {pads.begin(), middle}, {middle, pads.end()}, options)};
}

// Channels are [block, block, c] for our functions and for mode DCR, [c, block, block] for CRD.
std::vector<Output> depth_to_space_row(const NodeCall& c) {
  const int64_t block = c.integer("blocksize", 1);
  Output x = channels_last(c.input(0));
  if (c.text("mode", "DCR") == "CRD") {
    const Shape s = c.shape(x);
    const Output parts = reshape(x, {s[0], s[1], s[2], s[3] / (block * block), block * block});
    x = reshape_like(transpose(parts, {0, 1, 2, 4, 3}), x);
  }
  return {channels_first(depth_to_space(x, block))};
}

std::vector<Output> space_to_depth_row(const NodeCall& c) {
  return {channels_first(space_to_depth(channels_last(c.input(0)), c.integer("blocksize", 1)))};
}

std::vector<Output> trilu_row(const NodeCall& c) {
  const int64_t k = c.has_input(1) ? c.integers(c.input(1)).at(0) : 0;
  return {c.integer("upper", 1) ? triu(c.input(0), k) : tril(c.input(0), k)};
}

std::vector<Output> reverse_sequence_row(const NodeCall& c) {
  return {reverse_sequence(c.input(0), c.input(1), c.integer("time_axis", 0),
                           c.integer("batch_axis", 1))};
}

}  // namespace

std::vector<MappedOp> array_rows() {
  return {
      {"Concat", "concat",
       [](const NodeCall& c) { return std::vector{concat(c.inputs(), c.integer("axis", 1))}; }},
      {"Constant", "constant", constant_row},
      {"ConstantOfShape", "fill", constant_of_shape_row},
      {"DepthToSpace", "depth_to_space", depth_to_space_row},
      {"Expand", "broadcast_to", expand_row},
      {"EyeLike", "eye, tril, triu", eye_like_row},
      {"Flatten", "reshape", flatten_row},
      {"Pad", "pad", pad_row},
      {"Range", "range",
       [](const NodeCall& c) { return std::vector{range(c.input(0), c.input(1), c.input(2))}; }},
      {"Reshape", "reshape", reshape_row},
      {"ReverseSequence", "reverse_sequence", reverse_sequence_row},
      {"Shape", "shape_of, strided_slice", shape_row},
      {"Size", "shape_of, reduce_prod",
       [](const NodeCall& c) { return std::vector{reduce_prod(shape_of(c.input(0)))}; }},
      {"Slice", "strided_slice", slice_row},
      {"SpaceToDepth", "space_to_depth", space_to_depth_row},
      {"Split", "split, slice", split_row},
      {"Squeeze", "squeeze",
       [](const NodeCall& c) { return std::vector{squeeze(c.input(0), c.integers("axes", 1))}; }},
      {"Tile", "tile",
       [](const NodeCall& c) { return std::vector{tile(c.input(0), c.integers(c.input(1)))}; }},
      {"Transpose", "transpose",
       [](const NodeCall& c) { return std::vector{transpose(c.input(0), c.integers("perm"))}; }},
      {"Trilu", "tril, triu", trilu_row},
      {"Unsqueeze", "expand_dims", unsqueeze_row},
  };
}

}  // namespace troupe

// Rows of ONNX's ops that select, find, sort and count elements.
#include "tests/conformance/mapping.hpp"

namespace troupe {
namespace {

// Moves the axis to the front, where gather takes rows, and back behind the dimensions before it.
std::vector<Output> gather_row(const NodeCall& c) {
  const Output x = c.input(0);
  const int64_t ndim = x.shape().ndim(), axis = axis_of(c.integer("axis", 0), ndim);
  const Output indices = from_start(c.input(1), c.shape(x)[static_cast<int>(axis)]);
  const Output rows = gather(moved_axis(x, axis, 0), indices);
  const int64_t q = indices.shape().ndim();
  std::vector<int64_t> order;
  for (int64_t i = 0; i < axis; ++i) order.push_back(q + i);
  for (int64_t i = 0; i < q; ++i) order.push_back(i);
  for (int64_t i = axis; i < ndim - 1; ++i) order.push_back(q + i);
  return {transpose(rows, order)};
}

std::vector<Output> gather_elements_row(const NodeCall& c) {
  const Output x = c.input(0);
  const int64_t axis = axis_of(c.integer("axis", 0), x.shape().ndim());
  return {take_along(x, from_start(c.input(1), c.shape(x)[static_cast<int>(axis)]), axis)};
}

// The position along dimension `axis` of each place of `shape`; the result has a last dimension of
// 1.
Output positions(Graph& graph, const Shape& shape, int axis, DType dtype) {
  std::vector<int64_t> line(static_cast<size_t>(shape.ndim()) + 1, 1),
      grid(shape.begin(), shape.end());
  line[static_cast<size_t>(axis)] = shape[axis];
  grid.push_back(1);
  const Output numbers = range(graph, 0, static_cast<double>(shape[axis]), 1, dtype);
  return broadcast_to(reshape(numbers, Shape(line)), Shape(grid));
}

// Coordinates [..., k]; negative ones count from the end of x's dimensions.
Output coordinates(const NodeCall& c, Output indices, int first_dimension) {
  const Shape x = c.shape(c.input(0)), at = c.shape(indices);
  std::vector<int64_t> sizes;
  for (int64_t k = 0; k < at[at.ndim() - 1]; ++k)
    sizes.push_back(x[first_dimension + static_cast<int>(k)]);
  const Output size = cast(integer_constant(c.graph, sizes), indices.dtype());
  return where(less(indices, number_like(indices, 0)), indices + size, indices);
}

std::vector<Output> gather_nd_row(const NodeCall& c) {
  const auto batch = static_cast<int>(c.integer("batch_dims", 0));
  const Output indices = coordinates(c, c.input(1), batch);
  const Shape shape = c.shape(indices);
  const Shape places(shape.dims().first(static_cast<size_t>(shape.ndim() - 1)));
  std::vector<Output> parts;
  for (int d = 0; d < batch; ++d) parts.push_back(positions(c.graph, places, d, indices.dtype()));
  parts.push_back(indices);
  return {gather_nd(c.input(0), parts.size() == 1 ? indices : concat(parts, -1))};
}

// Element-wise indices along one axis become coordinates of all dimensions.
std::vector<Output> scatter_elements_row(const NodeCall& c) {
  const Output x = c.input(0);
  const auto axis = static_cast<int>(axis_of(c.integer("axis", 0), x.shape().ndim()));
  const Output indices = from_start(c.input(1), c.shape(x)[axis]);
  const Shape shape = c.shape(indices);
  std::vector<Output> parts;
  for (int d = 0; d < shape.ndim(); ++d)
    parts.push_back(d == axis ? expand_dims(indices, -1)
                              : positions(c.graph, shape, d, indices.dtype()));
  const Output at = concat(parts, -1);
  const std::string reduction = c.text("reduction", "none");
  if (reduction == "add") return {tensor_scatter_add(x, at, c.input(2))};
  if (reduction != "none") throw NotCovered{"no scatter that multiplies"};
  return {tensor_scatter_update(x, at, c.input(2))};
}

std::vector<Output> scatter_nd_row(const NodeCall& c) {
  const Output x = c.input(0), at = coordinates(c, c.input(1), 0);
  const std::string reduction = c.text("reduction", "none");
  if (reduction == "add") return {tensor_scatter_add(x, at, c.input(2))};
  if (reduction != "none") throw NotCovered{"no scatter that multiplies"};
  return {tensor_scatter_update(x, at, c.input(2))};
}

std::vector<Output> one_hot_row(const NodeCall& c) {
  const auto depth = static_cast<int64_t>(c.number(c.input(1)));
  const Output wanted = cast(c.input(0), DType::i64), values = c.input(2);
  const Output indices = mod(wanted, number_like(wanted, static_cast<double>(depth)));
  const Output off = slice(values, {0}, {1}), on = slice(values, {1}, {1});
  const Output y = one_hot(indices, depth, values.dtype()) * (on - off) + off;
  const int64_t ndim = y.shape().ndim();
  return {moved_axis(y, ndim - 1, axis_of(c.integer("axis", -1), ndim))};
}

// The condition may be shorter than the axis.
std::vector<Output> compress_row(const NodeCall& c) {
  Output x = c.input(0);
  const bool flat = !c.has_attr("axis");
  const int64_t axis = flat ? 0 : axis_of(c.integer("axis", 0), x.shape().ndim());
  if (flat) x = reshape(x, {-1});
  x = moved_axis(x, axis, 0);
  std::vector<int64_t> begin(static_cast<size_t>(x.shape().ndim()), 0), size(begin.size(), -1);
  size[0] = c.shape(c.input(1))[0];
  return {moved_axis(boolean_mask(slice(x, begin, size), c.input(1)), 0, axis)};
}

std::vector<Output> non_zero_row(const NodeCall& c) { return {transpose(nonzero(c.input(0)))}; }

std::vector<Output> unique_row(const NodeCall& c) {
  if (c.has_attr("axis")) throw NotCovered{"unique slices along an axis"};
  const Output x = reshape(c.input(0), {-1});
  const Unique found = unique(x);
  const int64_t elements = c.shape(x)[0], different = c.shape(found.values)[0];
  const Output places = range(c.graph, 0, static_cast<double>(elements), 1, DType::i64);
  const Output first = unsorted_segment_min(places, found.indices, different);
  if (c.integer("sorted", 1) == 0) return {found.values, first, found.indices, found.counts};
  const Output order = argsort(found.values);
  return {gather(found.values, order), gather(first, order),
          gather(invert_permutation(order), found.indices), gather(found.counts, order)};
}

std::vector<Output> top_k_row(const NodeCall& c) {
  const Output x = c.input(0);
  const int64_t last = x.shape().ndim() - 1, axis = axis_of(c.integer("axis", -1), last + 1);
  const int64_t k = c.has_attr("k") ? c.integer("k", 1) : c.integers(c.input(1)).at(0);
  const Output rows = moved_axis(x, axis, last);
  TopK top;
  if (c.integer("largest", 1)) {
    top = top_k(rows, k);
  } else {
    std::vector<int64_t> begin(static_cast<size_t>(last) + 1, 0), size(begin.size(), -1);
    size.back() = k;
    top.indices = slice(argsort(rows), begin, size);
    top.values = take_along(rows, top.indices);
  }
  return {moved_axis(top.values, last, axis), moved_axis(top.indices, last, axis)};
}

Output arg(const NodeCall& c, Output (*f)(Output, int64_t, Origin)) {
  const Output x = c.input(0);
  const int64_t axis = axis_of(c.integer("axis", 0), x.shape().ndim());
  Output at;
  if (c.integer("select_last_index", 0)) {  // the last of equal elements
    const int64_t size = c.shape(x)[static_cast<int>(axis)];
    at = static_cast<double>(size - 1) - f(reverse(x, {axis}), axis, Origin::here());
  } else {
    at = f(x, axis, Origin::here());
  }
  return c.integer("keepdims", 1) ? expand_dims(at, axis) : at;
}

}  // namespace

std::vector<MappedOp> index_rows() {
  return {
      {"ArgMax", "argmax", [](const NodeCall& c) { return std::vector{arg(c, argmax)}; }},
      {"ArgMin", "argmin", [](const NodeCall& c) { return std::vector{arg(c, argmin)}; }},
      {"Compress", "boolean_mask", compress_row},
      {"Gather", "gather", gather_row},
      {"GatherElements", "take_along", gather_elements_row},
      {"GatherND", "gather_nd", gather_nd_row},
      {"NonZero", "nonzero", non_zero_row},
      {"OneHot", "one_hot", one_hot_row},
      {"Scatter", "tensor_scatter_update", scatter_elements_row},
      {"ScatterElements", "tensor_scatter_update, tensor_scatter_add", scatter_elements_row},
      {"ScatterND", "tensor_scatter_update, tensor_scatter_add", scatter_nd_row},
      {"TopK", "top_k, argsort", top_k_row},
      {"Unique", "unique, argsort", unique_row},
  };
}

}  // namespace troupe

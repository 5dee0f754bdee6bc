// eye, meshgrid and sequence_mask, composed of other ops.
#include "ops/elementwise/composition.hpp"
#include "ops/support/elementwise.hpp"

namespace troupe {

Output eye(Graph& graph, int64_t rows, int64_t columns, DType dtype, Origin at) {
  if (rows < 0 || columns < -1)
    throw refused("eye", at, "wants sizes of at least 0, got ", rows, " and ", columns);
  const Output ones = fill(graph, {rows, columns < 0 ? rows : columns}, 1, dtype, "", at);
  return band_part(ones, 0, 0, at);
}

std::vector<Output> meshgrid(const std::vector<Output>& axes, Indexing indexing, Origin at) {
  const int ndim = static_cast<int>(axes.size());
  if (ndim < 1 || ndim > Shape::kNdimMax)
    throw refused("meshgrid", at, "wants 1 to ", int{Shape::kNdimMax}, " vectors, got ", ndim);
  Shape grid(std::vector<int64_t>(axes.size(), 1));
  std::vector<Output> lines;  // each axis along its dimension of the grid, with size 1 elsewhere
  for (int i = 0; i < ndim; ++i) {
    const Output axis = axes[static_cast<size_t>(i)];
    if (!axis.defined() || axis.shape().ndim() != 1)
      throw refused("meshgrid", at, "wants vectors; number ", i, " is ",
                    axis.defined() ? to_string(axis.shape()) : "undefined");
    const int d = indexing == Indexing::xy && ndim > 1 && i < 2 ? 1 - i : i;
    Shape line(std::vector<int64_t>(axes.size(), 1));
    line.set(d, -1);
    grid.set(d, axis.shape()[0]);
    lines.push_back(reshape(axis, line, at));
  }
  std::vector<Output> grids;
  for (const Output& line : lines) {
    if (grid.is_known()) {
      grids.push_back(broadcast_to(line, grid, at));
      continue;
    }
    // Broadcasts the line against each other line, of which only the shape is used.
    const Output always = fill(*line.graph, {}, 1, DType::boolean, "", at);
    Output y = line;
    for (const Output& other : lines)
      if (!other.is(line)) y = where(always, y, cast(stop_gradient(other, at), y.dtype(), at), at);
    grids.push_back(y);
  }
  return grids;
}

Output sequence_mask(Output lengths, int64_t size, DType dtype, Origin at) {
  if (!lengths.defined())
    throw refused("sequence_mask", at, "the lengths are an undefined Output; pass an op's result");
  if (lengths.dtype() != DType::i32 && lengths.dtype() != DType::i64)
    throw refused("sequence_mask", at, "wants lengths of i32 or i64, got ", lengths.dtype(),
                  "; cast them");
  if (size < -1)
    throw refused("sequence_mask", at,
                  "wants a size of at least 0, or -1 for the greatest length, ", "got ", size);
  Output positions;
  if (size >= 0) {
    positions = range(*lengths.graph, 0, static_cast<double>(size), 1, lengths.dtype(), at);
  } else {  // up to the greatest length, and 0 if there is none
    const Output zero = constant_like(0, lengths, at), one = constant_like(1, lengths, at);
    const Output all = concat({reshape(lengths, {-1}, at), reshape(zero, {1}, at)}, 0, at);
    positions = range(zero, reduce_max(all, {}, at), one, at);
  }
  const Output mask = greater(expand_dims(lengths, -1, at), positions, at);
  return dtype == DType::boolean ? mask : cast(mask, dtype, at);
}

}  // namespace troupe

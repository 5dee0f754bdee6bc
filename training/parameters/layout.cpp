// Cuts parameters into slices and packs them onto shards.
#include "training/parameters/layout.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "training/rules/optimizer.hpp"

namespace troupe {
namespace {

// The offsets at which to cut a parameter of `size` elements into `pieces`: at multiples of `unit`
// elements, as evenly as possible.
std::vector<int64_t> cuts(int64_t size, int64_t pieces, int64_t unit) {
  const int64_t units = (size + unit - 1) / unit;
  pieces = std::min(pieces, std::max<int64_t>(units, 1));
  std::vector<int64_t> out;
  for (int64_t i = 0; i <= pieces; ++i) out.push_back(std::min(size, units * i / pieces * unit));
  return out;
}

std::vector<int64_t> cuts(const ParameterSpec& p, int32_t shard_count) {
  if (p.table) return cuts(kRowGroups, shard_count, 1);
  const int64_t size = p.shape.size(), bytes = size * size_of(p.dtype);
  const int64_t pieces = std::clamp<int64_t>(bytes / kPieceBytesMin, 1, shard_count);
  if (pieces == 1 || (p.optimizer && wants_whole_parameter(*p.optimizer))) return {0, size};
  // Cutting at rows costs at most a row of imbalance, here at most an eighth of a piece.
  const int64_t row = p.shape.ndim() > 1 ? size / p.shape[0] : 1;
  const int64_t line = 64 / size_of(p.dtype);
  const bool at_rows = row > 1 && row * 8 <= size / pieces;
  return cuts(size, pieces, at_rows ? row : line);
}

void check(const std::vector<ParameterSpec>& parameters, int32_t shard_count) {
  if (shard_count < 1)
    throw Error(Errc::invalid_argument, "wants at least one shard for the parameters, got ",
                shard_count);
  std::set<std::string> names;
  for (const ParameterSpec& p : parameters) {
    if (!p.shape.is_known())
      throw Error(Errc::invalid_argument, "parameter ", p.name, " has the shape ", p.shape,
                  "; a shard needs to know every size");
    if (p.table && p.optimizer && wants_whole_parameter(*p.optimizer))
      throw Error(Errc::invalid_argument, "parameter ", p.name,
                  " is a table whose rows are made on first touch, and ", p.optimizer->kind,
                  " wants norms over all its rows; train it with adagrad, adam or another that "
                  "works by rows");
    if (!names.insert(p.name).second)
      throw Error(Errc::invalid_argument, "there are two parameters named ", p.name);
  }
}

}  // namespace

std::string describe(const Slice& slice) {
  if (slice.whole()) return slice.parameter;
  if (slice.table)
    return detail::concat(slice.parameter, "[groups ", slice.offset, ":", slice.offset + slice.size,
                          "]");
  return detail::concat(slice.parameter, "[", slice.offset, ":", slice.offset + slice.size, "]");
}

std::vector<Slice> split_parameters(const std::vector<ParameterSpec>& parameters,
                                    int32_t shard_count, uint32_t first_slice) {
  check(parameters, shard_count);
  std::vector<Slice> slices;
  for (const ParameterSpec& p : parameters) {
    const std::vector<int64_t> at = cuts(p, shard_count);
    for (size_t i = 0; i + 1 < at.size(); ++i)
      slices.push_back({.id = first_slice + static_cast<uint32_t>(slices.size()),
                        .parameter = p.name,
                        .dtype = p.dtype,
                        .shape = p.shape,
                        .offset = at[i],
                        .size = at[i + 1] - at[i],
                        .optimizer = p.optimizer,
                        .shard = static_cast<int32_t>(i),
                        .table = p.table});
  }
  std::vector<size_t> order(slices.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return slices[a].bytes() > slices[b].bytes(); });
  std::vector<int64_t> load(static_cast<size_t>(shard_count));
  for (size_t i : order) {
    if (slices[i].table) continue;  // how large it becomes is not known; each shard has a part
    const auto emptiest = std::min_element(load.begin(), load.end());
    *emptiest += slices[i].bytes();
    slices[i].shard = static_cast<int32_t>(emptiest - load.begin());
  }
  return slices;
}

}  // namespace troupe

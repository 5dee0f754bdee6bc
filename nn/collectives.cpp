// Collectives: one value of each replica becomes one result for each replica, composed of other
// ops. The cut of the graph turns what crosses devices into Sends and Receives, so placement,
// cancellation, errors and gradients are those of any graph.
//
// All sums are made from the first part to the last, element by element, so no bit depends on the
// cut of the values or on devices.
#include <algorithm>
#include <string_view>
#include <utility>

#include "graph/base/refuse.hpp"
#include "troupe/nn.hpp"
#include "troupe/ops.hpp"

namespace troupe::nn {
namespace {

// Parts of this size and more are combined in pieces: less of each crosses the links, and twice.
constexpr int64_t kPiecesFromBytes = int64_t{64} << 10;
constexpr int64_t kAligned = 64;  // elements: pieces begin at cache lines

// The shape of all parts. Throws: Error(invalid_argument).
Shape checked_parts(const char* function, Origin at, const Parts& parts, bool equal_shapes = true) {
  if (parts.empty())
    throw refuse(function, at, "there are no parts; pass the value of each replica");
  for (size_t r = 0; r < parts.size(); ++r)
    if (!parts[r].defined() || parts[r].graph != parts[0].graph)
      throw refuse(function, at, "part ", r, " is undefined or of another graph than part 0");
  if (!equal_shapes) return {};
  Shape shape = parts[0].shape();
  for (size_t r = 1; r < parts.size(); ++r) {
    const Shape& other = parts[r].shape();
    if (parts[r].dtype() != parts[0].dtype() || !may_equal(shape, other))
      throw refuse(function, at, "wants parts of one type, got ",
                   TensorType{parts[0].dtype(), parts[0].shape()}, " and ",
                   TensorType{parts[r].dtype(), other});
    for (int d = 0; d < shape.ndim(); ++d)
      if (shape[d] < 0) shape.set(d, other[d]);
  }
  return shape;
}

// f() for each part, with its device and replica.
template <class F>
Parts at_each(std::string_view name, const Parts& parts, F f) {
  Graph& graph = *parts[0].graph;
  Parts results;
  for (size_t r = 0; r < parts.size(); ++r) {
    const Node& node = graph.node(parts[r].node);
    const auto anywhere = graph.scope({.device = ""});
    const auto there = graph.scope({.name = std::string(name),
                                    .device = node.device,
                                    .replica = node.replica,
                                    .colocate_with = node.colocate_with});
    results.push_back(f(r));
  }
  return results;
}

Output combined(const Parts& parts, Combine how, Origin at) {
  Output all = parts[0];
  for (size_t r = 1; r < parts.size(); ++r)
    all = how == Combine::max ? maximum(all, parts[r], at) : add(all, parts[r], at);
  // One division after the sum, as the shards make a mean.
  return how == Combine::mean ? divide(all, static_cast<double>(parts.size()), at) : all;
}

void require_numbers(const char* function, Origin at, const Parts& parts, Combine how) {
  const DType dtype = parts[0].dtype();
  if (dtype == DType::boolean || (how == Combine::mean && !is_floating(dtype)))
    throw refuse(function, at, how == Combine::mean ? "a mean is of floats" : "combines numbers",
                 ", got ", dtype, "; cast them");
}

// Piece number r of each part, for all r: the begin and the size of each in a flat part of `size`
// elements. Empty: the parts are too small for pieces.
std::vector<std::pair<int64_t, int64_t>> pieces(int64_t size, int64_t bytes, size_t count) {
  const auto n = static_cast<int64_t>(count);
  const int64_t piece = ((size + n - 1) / n + kAligned - 1) / kAligned * kAligned;
  // Two whole parts are as many bytes on the link as halves that cross twice.
  if (n < 3 || bytes < kPiecesFromBytes || (n - 1) * piece >= size) return {};
  std::vector<std::pair<int64_t, int64_t>> all;
  for (int64_t begin = 0; begin < size; begin += piece)
    all.emplace_back(begin, std::min(piece, size - begin));
  return all;
}

}  // namespace

Parts all_reduce(const Parts& parts, Combine how, Origin at) {
  const Shape shape = checked_parts("all_reduce", at, parts);
  require_numbers("all_reduce", at, parts, how);
  const int64_t size = shape.is_known() ? shape.size() : 0;
  const auto cut = pieces(size, size * size_of(parts[0].dtype()), parts.size());
  if (cut.empty())
    return at_each("all_reduce", parts, [&](size_t) { return combined(parts, how, at); });
  const Parts flat =
      at_each("all_reduce", parts, [&](size_t r) { return reshape(parts[r], {size}, at); });
  std::vector<Parts> by_piece(cut.size());
  for (const Output& part : flat)
    for (size_t p = 0; p < cut.size(); ++p)
      at_each("all_reduce", {part}, [&](size_t) {
        by_piece[p].push_back(slice(part, {cut[p].first}, {cut[p].second}, at));
        return part;
      });
  const Parts done =
      at_each("all_reduce", parts, [&](size_t r) { return combined(by_piece[r], how, at); });
  return at_each("all_reduce", parts,
                 [&](size_t) { return reshape(concat(done, 0, at), shape, at); });
}

Parts reduce_scatter(const Parts& parts, Combine how, Origin at) {
  checked_parts("reduce_scatter", at, parts);
  require_numbers("reduce_scatter", at, parts, how);
  const auto n = static_cast<int64_t>(parts.size());
  std::vector<Parts> by_piece(parts.size());
  at_each("reduce_scatter", parts, [&](size_t r) {
    const Parts cut = split(parts[r], n, 0, at);
    for (size_t p = 0; p < cut.size(); ++p) by_piece[p].push_back(cut[p]);
    return parts[r];
  });
  return at_each("reduce_scatter", parts, [&](size_t r) { return combined(by_piece[r], how, at); });
}

Parts all_gather(const Parts& parts, int64_t axis, Origin at) {
  checked_parts("all_gather", at, parts, false);
  return at_each("all_gather", parts, [&](size_t) { return concat(parts, axis, at); });
}

Parts broadcast(const Parts& parts, int64_t root, Origin at) {
  checked_parts("broadcast", at, parts, false);
  if (root < 0 || root >= static_cast<int64_t>(parts.size()))
    throw refuse("broadcast", at, "there is no part ", root, " of ", parts.size());
  return at_each("broadcast", parts,
                 [&](size_t) { return identity(parts[static_cast<size_t>(root)], "", at); });
}

Parts barrier(const Parts& parts, Origin at) {
  checked_parts("barrier", at, parts, false);
  return at_each("barrier", parts, [&](size_t) { return group(*parts[0].graph, parts, "", at); });
}

}  // namespace troupe::nn

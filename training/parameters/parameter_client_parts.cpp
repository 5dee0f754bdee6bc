// The parts of a ParameterClient's requests: what each slice is asked for or sent, and how answers
// are put together.
#include <algorithm>

#include "devices/memory/memory.hpp"
#include "graph/base/repeat_rows.hpp"
#include "training/parameters/parameter_client.hpp"
#include "training/rules/row_slices.hpp"
#include "training/parameters/write_kind.hpp"

namespace troupe {
namespace {

// From this size on a gradient is worth giving away, and the gradients of a step are buffers of
// their own.
constexpr int64_t kGivenFrom = Memory::kMarkedAbove + 1;

// True if a pushed or written tensor fits: all elements, or packed rows
// (troupe/ops/parameters.hpp).
bool fits(const Tensor& gradient, const ParameterRoute& route, bool rows) {
  if (rows) return are_packed_rows(gradient, route.dtype, route.shape.size());
  return gradient.dtype() == route.dtype && gradient.shape() == route.shape;
}

// The same for rows that are not packed: `indices`, and `values` [n, elements of a row].
bool fits(const Tensor& indices, const Tensor& values, const ParameterRoute& route) {
  const int64_t size = route.shape.size();
  return are_like_rows(indices, values, route.dtype, size) &&
         are_rows(indices.values<int64_t>(), size / values.dim(1));
}

std::string rows_outside(const Tensor& indices, const Tensor& values, const ParameterRoute& route,
                         const std::string& of) {
  const int64_t size = route.shape.size();
  if (!are_like_rows(indices, values, route.dtype, size)) return {};
  return index_outside(indices.values<int64_t>(), size / values.dim(1), of);
}

int64_t row_size_of(const ParameterRoute& route) {
  return route.shape.ndim() > 0 && route.shape[0] > 0 ? route.shape.size() / route.shape[0] : 0;
}

// Rows are pulled alone if they are at most half of the parameter and no slice cuts through a row.
// Otherwise whole slices are pulled, which this process may have cached.
bool rows_suffice(const Tensor& indices, const ParameterRoute& route) {
  const int64_t row = row_size_of(route);
  const auto between_rows = [row](const SliceRoute& s) {
    return s.offset % row == 0 && s.size % row == 0;
  };
  return row > 0 && indices.size() * row <= route.shape.size() / 2 &&
         std::all_of(route.slices.begin(), route.slices.end(), between_rows);
}

}  // namespace

// The type of the tensor that collects the answers of several slices; none if there is one answer.
TensorType ParameterClient::room_for(const Request& request) const {
  const ParameterRoute& route = routes_->parameters.at(request.parameter);
  if (request.kind == Kind::rows && rows_suffice(request.indices, route)) {
    const int64_t n = request.indices.size();
    if (n == 0) return {route.dtype, rows_shape(request.indices.shape(), route.shape)};
    if (route.slices.size() > 1) return {route.dtype, Shape{n, row_size_of(route)}};
  } else if (!request.sends() && route.slices.size() > 1) {
    return {route.dtype, route.shape};
  }
  return {};
}

std::pair<Errc, std::string> ParameterClient::refusal(const Request& request,
                                                      const Tensor& gradient) const {
  const auto it = routes_->parameters.find(request.parameter);
  if (it == routes_->parameters.end())
    return {Errc::stale, detail::concat("this process does not know where parameter ",
                                        request.parameter, " lives")};
  if (parts_.size() >= kPendingMax)
    return {Errc::out_of_memory,
            detail::concat("more than ", kPendingMax,
                           " parameter requests under way; run fewer steps at once")};
  const ParameterRoute& route = it->second;
  const bool loose = request.kind == Kind::push && request.indices.defined();
  const bool rows = request.kind == Kind::write
                        ? writes_rows(request.write.kind)
                        : loose || (gradient.defined() && gradient.dtype() == DType::u8 &&
                                    route.dtype != DType::u8);
  // If the parameter is in one slice, its shard checks the rows itself, packed or not.
  const bool cut = route.slices.size() > 1;
  const bool odd = loose && !may_repeat(gradient.dim(0), request.indices.size());
  if (request.sends() && (cut || !rows || odd) &&
      !(loose ? fits(request.indices, gradient, route) : fits(gradient, route, rows))) {
    const std::string outside =
        loose  ? rows_outside(request.indices, gradient, route, request.parameter)
        : rows ? row_outside(gradient, route.shape.size(), request.parameter)
               : "";
    if (!outside.empty()) return {Errc::invalid_argument, outside};
    return {Errc::invalid_argument,
            detail::concat(request.kind == Kind::push ? "the gradient of " : "what is written to ",
                           request.parameter, " is ", rows ? "rows, in " : "", gradient.dtype(),
                           gradient.shape(), "; the parameter is ", route.dtype, route.shape)};
  }
  if (request.kind != Kind::rows || (!cut && rows_suffice(request.indices, route)))
    return {Errc::ok, {}};
  const int64_t count = route.shape.ndim() > 0 ? route.shape[0] : 0;
  const auto indices = request.indices.values<int64_t>();
  if (are_rows(indices, count)) return {Errc::ok, {}};
  return {Errc::invalid_argument, index_outside(indices, count, request.parameter)};
}

// Selects the asked rows that are in this slice; false if there are none.
bool ParameterClient::cut_rows(const Request& request, const ParameterRoute& route,
                               const SliceRoute& slice, Part& part) const {
  part.row_size = row_size_of(route);
  const std::span<const int64_t> indices = request.indices.values<int64_t>();
  if (route.slices.size() == 1) {
    part.rows = request.indices.reshaped(Shape{request.indices.size()});
    return true;
  }
  const int64_t first = slice.offset / part.row_size, count = slice.size / part.row_size;
  std::vector<int64_t> here;
  for (size_t i = 0; i < indices.size(); ++i)
    if (indices[i] >= first && indices[i] < first + count) {
      here.push_back(indices[i] - first);
      part.places.push_back(static_cast<int64_t>(i));
    }
  part.rows = Tensor::of<int64_t>(here, Shape{static_cast<int64_t>(here.size())});
  return !here.empty();
}

ParameterClient::Parts ParameterClient::add_parts(const RequestPtr& request, Tensor gradient) {
  const ParameterRoute& route = routes_->parameters.at(request->parameter);
  Parts parts;
  request->started = system_.clock().now();
  const bool by_rows = request->kind == Kind::rows && rows_suffice(request->indices, route);
  if (by_rows && request->indices.size() == 0) return parts;
  const bool loose = request->kind == Kind::push && request->indices.defined();
  const Tensor flat =
      request->sends() && !loose ? gradient.reshaped(Shape{gradient.size()}) : Tensor{};
  const bool whole = route.slices.size() == 1;
  const Tensor all = loose && !whole ? repeat_rows(gradient, request->indices.size()) : Tensor{};
  const bool packed = request->kind == Kind::write ? writes_rows(request->write.kind)
                                                   : flat.defined() && flat.dtype() != route.dtype;
  for (size_t i = 0; i < route.slices.size(); ++i) {
    Part part;
    part.request = request;
    part.index = i;
    part.route = RoutePtr(routes_, &route.slices[i]);
    part.resend_at = request->started + kResendFirst;
    if (tracer_ && tracer_->on()) part.asked_ns = Tracer::now_ns();
    if (by_rows && !cut_rows(*request, route, *part.route, part)) continue;
    if (by_rows) part.bytes = part.rows.size() * part.row_size * size_of(route.dtype);
    if (request->sends()) {
      const int64_t begin = part.route->offset, end = begin + part.route->size;
      if (loose && whole) {
        part.gradient = gradient;
        part.rows = request->indices;
      } else {
        part.gradient = loose
                            ? rows_of_slice(rows_in(all, request->indices), route.dtype, begin, end)
                        : packed ? rows_of_slice(flat, route.dtype, route.shape.size(), begin, end)
                                 : flat.rows(begin, end);
      }
      part.bytes = part.gradient.byte_size() + (part.rows.defined() ? part.rows.byte_size() : 0);
      // Drawn once memory was found: the shard would wait for a number that was never sent.
      part.sequence = next_sequence_[{request->at.replica, part.route->slice}]++;
    }
    offer(part);
    const uint64_t ticket = next_ticket_++;
    Part& kept = parts_[ticket] = part;
    if (request->kind == Kind::push && part.route->local && !packed && !loose && whole &&
        part.bytes >= kGivenFrom)
      kept.gradient.reset();
    parts.emplace_back(ticket, std::move(part));
  }
  request->open = parts.size();
  return parts;
}

}  // namespace troupe

// Cuts requests by slices and puts their answers together.
#include "training/parameters/parameter_request.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include "graph/base/repeat_rows.hpp"
#include "training/parameters/write_kind.hpp"
#include "training/rules/row_slices.hpp"

namespace troupe {
namespace {

int64_t row_size_of(const ParameterRoute& route) {
  return route.shape.ndim() > 0 && route.shape[0] > 0 ? route.shape.size() / route.shape[0] : 0;
}

}  // namespace

Tensor as_rows(const Tensor& values) {
  int64_t row = 1;
  for (int d = 1; d < values.ndim(); ++d) row *= values.dim(d);
  return values.reshaped(Shape{values.dim(0), row});
}

const char* ParameterRequest::name() const {
  static const char* const names[] = {"pull", "pull of rows", "push", "write"};
  return names[static_cast<size_t>(kind)];
}

void check_route(const std::string& parameter, const ParameterRoute& route) {
  const auto refuse = [&](const auto&... why) {
    throw Error(Errc::invalid_argument, "the route of parameter ", parameter, " ", why...);
  };
  if (!is_dtype(static_cast<int64_t>(route.dtype)) || !route.shape.is_known())
    refuse("has no dtype or no known shape");
  const int64_t extent = route.table ? kRowGroups : route.shape.size();
  int64_t end = 0;
  for (const SliceRoute& slice : route.slices) {
    if (slice.offset != end || slice.size < 0 || slice.size > extent - end)
      refuse("has a slice of elements ", slice.offset, " to ", slice.offset, " + ", slice.size,
             " behind element ", end, " of ", extent);
    end += slice.size;
  }
  if (route.slices.empty() || end != extent)
    refuse("has slices for ", end, " of ", extent, route.table ? " groups" : " elements");
}

bool same_layout(const ParameterRoute& a, const ParameterRoute& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.table == b.table &&
         std::equal(a.slices.begin(), a.slices.end(), b.slices.begin(), b.slices.end(),
                    [](const SliceRoute& x, const SliceRoute& y) {
                      return x.offset == y.offset && x.size == y.size;
                    });
}

// Rows are pulled alone if they are at most half of the parameter and no slice cuts through a row.
// Otherwise whole slices are pulled, which this process may have cached. Tables have no whole
// slices.
bool ParameterRequest::by_rows(const ParameterRoute& route) const {
  if (route.table) return kind == Kind::rows;
  if (kind != Kind::rows || whole) return false;
  const int64_t row = row_size_of(route);
  const auto between_rows = [row](const SliceRoute& s) {
    return s.offset % row == 0 && s.size % row == 0;
  };
  return row > 0 && indices.size() * row <= route.shape.size() / 2 &&
         std::all_of(route.slices.begin(), route.slices.end(), between_rows);
}

TensorType ParameterRequest::collects(const ParameterRoute& route) const {
  if (by_rows(route)) {
    const int64_t n = indices.size();
    if (n == 0) return {route.dtype, rows_shape(indices.shape(), route.shape)};
    if (route.slices.size() > 1) return {route.dtype, Shape{n, row_size_of(route)}};
  } else if (!sends() && route.slices.size() > 1) {
    return {route.dtype, route.shape};
  }
  return {};
}

Outcome ParameterRequest::check(const ParameterRoute& route, const Gradient& gradient) const {
  if (route.table &&
      (kind == Kind::pull || kind == Kind::write || (kind == Kind::push && !gradient.by_rows())))
    return {Errc::invalid_argument,
            detail::concat(parameter, " is a table ", route.dtype, route.shape,
                           " whose rows are made on first touch, and a ", name(),
                           " would be of all of them; read it by gather() alone, on a CPU and "
                           "outside of branches and loops, and train it by minimize()")};
  const bool one = route.slices.size() == 1;
  const int64_t size = route.shape.size();
  if (sends()) {
    const Tensor& given = gradient.values;
    const auto like_rows = [&] { return are_like_rows(gradient, route.dtype, size); };
    const bool fits = !gradient.by_rows()
                          ? given.dtype() == route.dtype && given.shape() == route.shape
                      : one ? may_repeat(given.dim(0), gradient.indices.size())
                            : like_rows() && are_rows(gradient.rows(), size / gradient.row_size());
    if (fits) return {};
    if (gradient.by_rows() && like_rows())
      return {Errc::invalid_argument,
              index_outside(gradient.rows(), size / gradient.row_size(), parameter)};
    return {Errc::invalid_argument,
            detail::concat(kind == Kind::push ? "the gradient of " : "what is written to ",
                           parameter, " is ", gradient.by_rows() ? "rows, in " : "", given.dtype(),
                           given.shape(), "; the parameter is ", route.dtype, route.shape)};
  }
  if (kind != Kind::rows || (one && by_rows(route))) return {};
  const int64_t count = route.shape.ndim() > 0 ? route.shape[0] : 0;
  const auto wanted = indices.values<int64_t>();
  if (are_rows(wanted, count)) return {};
  return {Errc::invalid_argument, index_outside(wanted, count, parameter)};
}

bool ParameterRequest::select_rows(const ParameterRoute& route, const SliceRoute& slice,
                                   SliceShare& share) const {
  share.row_size = row_size_of(route);
  if (route.slices.size() == 1) {
    share.rows = indices.reshaped(Shape{indices.size()});
    return true;
  }
  const std::span<const int64_t> wanted = indices.values<int64_t>();
  std::vector<int64_t> here;
  const auto take_from = [&](int64_t first, int64_t count, int64_t begin, auto number) {
    for (size_t i = 0; i < wanted.size(); ++i)
      if (const int64_t at = number(wanted[i]); at >= first && at < first + count) {
        here.push_back(wanted[i] - begin);
        share.places.push_back(static_cast<int64_t>(i));
      }
  };
  if (route.table) {
    take_from(slice.offset, slice.size, 0, row_group);
  } else {
    const int64_t first = slice.offset / share.row_size;
    take_from(first, slice.size / share.row_size, first, [](int64_t row) { return row; });
  }
  share.rows = Tensor::of<int64_t>(here, Shape{static_cast<int64_t>(here.size())});
  return !here.empty();
}

Codec ParameterRequest::codec_of(const ParameterRoute& route, const Gradient& gradient) const {
  if (kind == Kind::push) return gradient.by_rows() ? Codec{} : route.push;
  const bool whole = kind == Kind::pull || (kind == Kind::rows && !by_rows(route));
  return whole && at.step >= 0 ? route.pull : Codec{};
}

Outcome ParameterRequest::code(const ParameterRoute& route, Gradient& gradient, uint64_t seed,
                               Residuals& residuals, const Make& make) {
  const GradientKey key{seed, parameter, at.replica, at.step};
  if (has_residual(route.push.kind)) {
    Residuals::Coded coded =
        residuals.code(epoch, route.push, gradient.values, key, route.plan, make);
    if (!coded.refused.empty())
      return {coded.lost ? Errc::stale : Errc::invalid_argument, std::move(coded.refused)};
    codec = coded.kind;
    gradient = std::move(coded.gradient);
    return {};
  }
  Tensor codes = encode(route.push, gradient.values, key, make);
  if (!codes.defined()) return {};  // the shard says which element is not finite
  codec = route.push.kind;
  gradient = std::move(codes);
  return {};
}

std::vector<SliceShare> ParameterRequest::cut(const ParameterRoute& route,
                                              Gradient gradient) const {
  std::vector<SliceShare> out;
  const bool rows = by_rows(route), whole = route.slices.size() == 1;
  if (rows && indices.size() == 0) return out;
  if (sends() && !gradient.by_rows() && codec == Codec::none)
    gradient.values = gradient.values.reshaped(Shape{gradient.values.size()});
  else if (gradient.by_rows() && !whole)
    gradient.values = repeat_rows(gradient.values, gradient.indices.size());
  for (size_t i = 0; i < route.slices.size(); ++i) {
    const SliceRoute& slice = route.slices[i];
    SliceShare share{.index = i};
    if (rows) {
      if (!select_rows(route, slice, share)) continue;
      share.bytes = share.rows.size() * share.row_size * size_of(route.dtype);
    } else if (sends()) {
      const int64_t begin = slice.offset, end = begin + slice.size;
      share.gradient =
          whole                ? gradient
          : route.table        ? rows_of_groups(gradient, begin, end)
          : gradient.by_rows() ? rows_of_slice(gradient, begin, end)
          : codec != Codec::none
              ? Gradient(codes_of_slice(codec, gradient.values, route.shape.size(), begin, end))
              : Gradient(gradient.values.rows(begin, end));
      share.bytes = share.gradient.byte_size();
    }
    out.push_back(std::move(share));
  }
  return out;
}

Tensor ParameterRequest::decoded(const ParameterRoute& route, Tensor pulled,
                                 const Make& make) const {
  if (codec == Codec::none || !pulled.defined()) return pulled;
  if (!are_codes(codec, pulled, 0, pulled.size())) return {};
  Tensor out = make(route.dtype, pulled.shape());
  decode(codec, pulled, 0, pulled.size(), out);
  return out;
}

void ParameterRequest::put(const SliceShare& share, const ParameterRoute& route,
                           const Tensor& pulled) {
  if (route.slices.size() == 1) {
    values = share.rows.defined() ? pulled : pulled.reshaped(route.shape);
    return;
  }
  const auto bytes = size_of(route.dtype);
  char* to = static_cast<char*>(values.mutable_raw());
  const char* from = static_cast<const char*>(pulled.raw());
  if (!share.rows.defined()) {
    const SliceRoute& slice = route.slices[share.index];
    std::memcpy(to + slice.offset * bytes, from, static_cast<size_t>(slice.size * bytes));
    return;
  }
  const int64_t row = share.row_size * bytes;
  for (const int64_t place : share.places) {
    std::memcpy(to + place * row, from, static_cast<size_t>(row));
    from += row;
  }
}

void ParameterRequest::finish(const ParameterRoute& route, const Make& make) {
  if (by_rows(route))
    values = values.reshaped(rows_shape(indices.shape(), route.shape));
  else if (kind == Kind::rows)
    values = take_rows(values, indices, make);
}

}  // namespace troupe

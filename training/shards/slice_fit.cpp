// Compares slices, values, pushes and pulls with each other.
#include "training/shards/slice_fit.hpp"

#include "graph/optimizer.hpp"
#include "training/codecs/codec.hpp"
#include "training/parameters/write_kind.hpp"
#include "training/rules/optimizer.hpp"
#include "training/rules/row_slices.hpp"

namespace troupe {
namespace {

bool has_rows(const Slice& slice, std::span<const int64_t> rows, int64_t row_size) {
  if (slice.table)
    return are_rows_of_groups(rows, slice.shape[0], slice.offset, slice.offset + slice.size);
  return are_rows(rows, slice.size / row_size);
}

// The number of rows of that size that indices may name.
int64_t rows_of(const Slice& slice, int64_t row_size) {
  return slice.table ? slice.shape[0] : slice.size / row_size;
}

bool has_rows_of(const Slice& slice, int64_t row_size) {
  return slice.table ? row_size == slice.row_size() : slice.size % row_size == 0;
}

// `read`: rows whose indices a read has checked. They are checked again in another step, as a
// program may have broken its promise not to write to fed tensors.
bool takes(const Slice& slice, const Push& p, const RowsRead& read) {
  const Gradient& g = p.gradient;
  const bool known = p.write == 0 || p.write <= write_code(ParameterWrite::add_rows);
  const bool adds =
      p.write == write_code(ParameterWrite::add) || p.write == write_code(ParameterWrite::add_rows);
  if (!known || (adds && slice.dtype == DType::boolean)) return false;
  if (slice.table)
    return p.write == 0 && g.by_rows() && are_like_rows(g, slice.dtype, slice.shape.size()) &&
           has_rows_of(slice, g.row_size()) && has_rows(slice, g.rows(), g.row_size());
  if (!g.by_rows())
    return (p.write == 0 || !writes_rows(write_kind(p.write))) && g.values.on_host() &&
           g.values.dtype() == slice.dtype && g.values.size() == slice.size;
  if (!are_like_rows(g, slice.dtype, slice.size)) return false;
  if (p.write != 0)
    return writes_rows(write_kind(p.write)) && g.indices_per_row() == 1 &&
           has_rows(slice, g.rows(), g.row_size());
  return (read.has(g) && read.replica == p.replica && read.step == p.step) ||
         has_rows(slice, g.rows(), g.row_size());
}

}  // namespace

bool may_be_coded(const Slice& slice, const Pull& p) {
  return is_codec(p.codec) && codes_values(static_cast<Codec::Kind>(p.codec)) &&
         is_wide_float(slice.dtype) && !p.rows.defined();
}
bool may_name_rows(const Slice& slice, const Pull& p) {
  if (!p.rows.defined()) return false;
  if (!p.rows.on_host() || p.rows.dtype() != DType::i64 || p.rows.ndim() != 1) return false;
  return p.row_size >= 1 && has_rows_of(slice, p.row_size);
}
bool names_rows(const Slice& slice, const Pull& p) {
  return has_rows(slice, p.rows.values<int64_t>(), p.row_size);
}

std::string no_rows(const Slice& slice, const Pull& p) {
  if (!p.rows.defined())
    return detail::concat(slice.parameter,
                          " is a table whose rows are made on first touch, and a pull would be of "
                          "all of them; read it by gather() alone");
  if (p.rows.dtype() == DType::i64 && p.row_size > 0) {
    std::string outside =
        index_outside(p.rows.values<int64_t>(), rows_of(slice, p.row_size), describe(slice));
    if (!outside.empty()) return outside;
  }
  return detail::concat("a pull of rows of ", p.row_size, " elements does not fit ",
                        describe(slice), ", which has ", slice.size);
}

void check_slice(const Slice& s) {
  if (s.optimizer) {
    check_optimizer(*s.optimizer);
    if (!is_wide_float(s.dtype))
      throw Error(Errc::invalid_argument, "parameter ", s.parameter, " is ", s.dtype,
                  "; only f32 and f64 can be trained");
  }
  if (s.offset < 0 || s.size < 0 || s.offset > s.extent() - s.size)
    throw Error(Errc::invalid_argument, "slice ", s.id, " of ", s.parameter, " is elements ",
                s.offset, " to ", s.offset + s.size, " of ", s.extent());
  if (s.table && s.optimizer && wants_whole_parameter(*s.optimizer))
    throw Error(Errc::invalid_argument, describe(s), " is a table whose rows are made on first ",
                "touch, and ", s.optimizer->kind, " wants it whole");
  if (s.optimizer && wants_whole_parameter(*s.optimizer) && !s.whole())
    throw Error(Errc::invalid_argument, describe(s), " is a part of a parameter, and ",
                s.optimizer->kind, " wants it whole");
}

Outcome check_values(const Slice& slice, const Tensor& values, const char* what) {
  if (values.defined() && values.on_host() && values.dtype() == slice.dtype &&
      values.size() == slice.elements())
    return {};
  return {
      Errc::invalid_argument,
      detail::concat(what, " of ", describe(slice), " are ", values.dtype(), " of ", values.size(),
                     " elements; wants ", slice.dtype, " of ", slice.elements())};
}

Outcome check_push(const Slice& slice, const Push& p, const RowsRead& read) {
  if (takes(slice, p, read)) return {};
  const Gradient& g = p.gradient;
  std::string text;
  if (g.by_rows() && are_like_rows(g, slice.dtype, slice.table ? slice.shape.size() : slice.size))
    text = index_outside(g.rows(), rows_of(slice, g.row_size()), describe(slice));
  if (text.empty() && slice.table)
    text = detail::concat("what replica ", p.replica, " pushes to ", describe(slice),
                          " are no rows of ", slice.row_size(), " elements of ", slice.dtype,
                          " in these groups; a table takes gradients by rows alone");
  if (text.empty())
    text =
        detail::concat(p.write == 0 ? "the gradient of " : "what is written to ", describe(slice),
                       " by replica ", p.replica, " is ", g.values.dtype(), " of ", g.values.size(),
                       " elements; wants ", slice.dtype, " of ", slice.size, ", or rows of it");
  return {Errc::invalid_argument, std::move(text)};
}

}  // namespace troupe

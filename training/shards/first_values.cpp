// Puts the pieces of a slice's initial values together.
#include "training/shards/first_values.hpp"

#include <cstring>
#include <utility>

namespace troupe {
namespace {

// The initial values of a slice come in pieces; more bytes are refused before memory is taken.
constexpr int64_t kSliceBytesMax = int64_t{1} << 34;

}  // namespace

Outcome FirstValues::add(const SetInitial& m, const Slice& slice, Memory& memory, Tensor& whole) {
  const int64_t total = slice.bytes(), size = static_cast<int64_t>(m.bytes.size());
  if (total > kSliceBytesMax)
    return {Errc::invalid_argument,
            detail::concat(describe(slice), " has ", total, " bytes; a slice has at most ",
                           kSliceBytesMax, ", so spread the parameter over more ps tasks")};
  if (m.byte_offset == 0) drop(m.slice);  // from the start, again perhaps
  Begun& begun = begun_[m.slice];
  if (m.byte_offset != begun.bytes || m.byte_offset > total - size)
    return {Errc::invalid_argument,
            detail::concat("bytes ", m.byte_offset, " to ", m.byte_offset + size, " of ",
                           describe(slice), ", which has ", total, ", came after ", begun.bytes,
                           " bytes")};
  if (!begun.values.defined()) begun.values = memory.make(slice.dtype, Shape{slice.elements()});
  std::memcpy(static_cast<char*>(begun.values.mutable_raw()) + m.byte_offset, m.bytes.data(),
              m.bytes.size());
  begun.bytes += size;
  if (begun.bytes == total) {
    whole = std::move(begun.values);
    drop(m.slice);
  }
  return {};
}

}  // namespace troupe

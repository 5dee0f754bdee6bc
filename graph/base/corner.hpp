// copy_corner(): elements of a tensor into a larger one.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

namespace troupe {

// Copies row-major elements of `sizes` into the corner, at the lowest indices, of a tensor of the
// sizes `whole`, which are at least as large. `element_bytes`: of one element.
inline void copy_corner(const char* from, std::span<const int64_t> sizes, char* to,
                        std::span<const int64_t> whole, int64_t element_bytes) {
  if (sizes.empty()) {
    std::memcpy(to, from, static_cast<size_t>(element_bytes));
    return;
  }
  int64_t inner_from = element_bytes, inner_to = element_bytes;
  for (size_t d = 1; d < sizes.size(); ++d) {
    inner_from *= sizes[d];
    inner_to *= whole[d];
  }
  if (inner_from == inner_to) {
    std::memcpy(to, from, static_cast<size_t>(sizes[0] * inner_from));
    return;
  }
  for (int64_t i = 0; i < sizes[0]; ++i)
    copy_corner(from + i * inner_from, sizes.subspan(1), to + i * inner_to, whole.subspan(1),
                element_bytes);
}

}  // namespace troupe

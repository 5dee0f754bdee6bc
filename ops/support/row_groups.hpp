// Splits independent rows into jobs.
#pragma once

#include <algorithm>
#include <cstdint>

#include "troupe/op.hpp"

namespace troupe {

// Calls part(first, count) for groups of `rows` rows of `width` elements, in jobs of about
// `elements` elements each. No calls if there are no rows.
template <class Part>
void in_row_groups(const KernelContext& ctx, int64_t rows, int64_t width, int64_t elements,
                   const Part& part) {
  if (rows == 0) return;
  const int64_t group = std::max<int64_t>(1, elements / std::max<int64_t>(1, width));
  if (rows <= group) return part(0, rows);
  ctx.parallel((rows + group - 1) / group,
               [&](int64_t job) { part(job * group, std::min(group, rows - job * group)); });
}

}  // namespace troupe

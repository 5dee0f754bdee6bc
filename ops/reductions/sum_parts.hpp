// The last step of both filter gradients of convolutions: sums the results of their jobs.
#pragma once

#include "ops/support/elementwise.hpp"

namespace troupe {

// parts[0] += all others, as a tree over the parts; elements are independent, so any range of them
// is a job.
template <class T>
void sum_parts(const KernelContext& ctx, T* parts, int64_t count, int64_t size) {
  in_parts(ctx, size, [=](int64_t at, int64_t length) {
    for (int64_t step = 1; step < count; step *= 2)
      for (int64_t i = 0; i + step < count; i += 2 * step) {
        T* const sum = parts + i * size + at;
        zip_elements<Add, 1, 1>(static_cast<const T*>(sum),
                                static_cast<const T*>(sum + step * size), sum, length);
      }
  });
}

}  // namespace troupe

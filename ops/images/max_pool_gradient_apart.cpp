// MaxPoolGradient for windows that share no pixel: nothing is added up.
#include "ops/images/max_pool_back.hpp"

namespace troupe {

void max_pool_back_apart(const PoolSizes* s, const float* x, const float* dy, float* dx,
                         int64_t first, int64_t last) {
  in_isa<MaxPoolBackLoop<true>>(s, x, dy, dx, first, last);
}

void max_pool_back_apart(const PoolSizes* s, const double* x, const double* dy, double* dx,
                         int64_t first, int64_t last) {
  in_isa<MaxPoolBackLoop<true>>(s, x, dy, dx, first, last);
}

}  // namespace troupe

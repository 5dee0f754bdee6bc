// MaxPoolGradient for windows that share pixels: the values of one pixel are added up.
#include "ops/images/max_pool_back.hpp"

namespace troupe {

void max_pool_back_shared(const PoolSizes* s, const float* x, const float* dy, float* dx,
                          int64_t first, int64_t last) {
  in_isa<MaxPoolBackLoop<false>>(s, x, dy, dx, first, last);
}

void max_pool_back_shared(const PoolSizes* s, const double* x, const double* dy, double* dx,
                          int64_t first, int64_t last) {
  in_isa<MaxPoolBackLoop<false>>(s, x, dy, dx, first, last);
}

}  // namespace troupe

// log_add_exp2: log2(2^a + 2^b), made of ops.
#include <numbers>

#include "ops/support/elementwise.hpp"
#include "troupe/ops.hpp"

namespace troupe {

// With m the greater of both:  m + log(e^((a - m) ln 2) + e^((b - m) ln 2)) / ln 2. So large
// numbers keep their digits, and one that is far greater is the result. m's own slope is 0 in all,
// so it counts as a constant; where it is infinite or NaN, it would make NaN of equal infinities,
// and log_add_exp needs none.
Output log_add_exp2(Output a, Output b, Origin at) {
  const Output greater = maximum(a, b, at), zero = constant_like(0, greater, at);
  const Output m = stop_gradient(where(is_finite(greater, at), greater, zero, at), at);
  const Output ln2 = constant_like(std::numbers::ln2, m, at);
  const Output apart =
      log_add_exp(multiply(subtract(a, m, at), ln2, at), multiply(subtract(b, m, at), ln2, at), at);
  return add(m, divide(apart, ln2, at), at);
}

}  // namespace troupe

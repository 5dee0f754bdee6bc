// zeros_like and ones_like: a number in the shape and dtype of another value, composed of ops.
#include "ops/support/elementwise.hpp"
#include "ops/support/refused.hpp"
#include "troupe/ops.hpp"

namespace troupe {

Output zeros_like(Output x, Origin at) {
  require_defined("zeros_like", at, {x});
  return broadcast_like(constant_like(0, x, at), x, at);
}

Output ones_like(Output x, Origin at) {
  require_defined("ones_like", at, {x});
  return broadcast_like(constant_like(1, x, at), x, at);
}

}  // namespace troupe

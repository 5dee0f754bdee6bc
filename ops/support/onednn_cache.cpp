// Creates oneDNN's primitive cache early in the process.
#include "ops/support/onednn_cache.hpp"

#include "ops/support/onednn.hpp"

namespace troupe {

void make_onednn_cache() { dnnl::get_primitive_cache_capacity(); }

}  // namespace troupe

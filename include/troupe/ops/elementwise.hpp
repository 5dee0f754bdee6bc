// Element-wise functions beyond those of troupe/ops.hpp. They broadcast as NumPy does. Everything
// that troupe/ops.hpp says of its functions holds for these.
#pragma once

#include "troupe/graph.hpp"

namespace troupe {}  // namespace troupe

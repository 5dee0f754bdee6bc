// Linear algebra over the last two dimensions. Everything that troupe/ops.hpp says of its functions
// holds for these.
#pragma once

#include "troupe/graph.hpp"

namespace troupe {}  // namespace troupe

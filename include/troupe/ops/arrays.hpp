// Ops that move, cut, join, pad, gather and scatter elements. Everything that troupe/ops.hpp says
// of its functions holds for these.
#pragma once

#include "troupe/graph.hpp"

namespace troupe {}  // namespace troupe

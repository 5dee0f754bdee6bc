// Print: logs a value while a graph runs. Implemented in ops/control_flow/print.cpp.
#pragma once

#include <string_view>

#include "troupe/graph.hpp"

namespace troupe {

struct PrintOptions {
  int64_t every = 1;      // print one of this many firings, the first
  int64_t most = -1;      // lines during the node's life in a process; -1: no limit
  int64_t elements = 10;  // number of elements shown
};
// x itself; a reader of the result makes it print a line on the stderr of the process it runs in:
// "loss: node=Print run=7 step=3 type=f32[] values=[0.25]".
Output print(Output x, std::string_view text, PrintOptions options = {},
             Origin at = Origin::here());

}  // namespace troupe

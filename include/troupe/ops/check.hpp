// Check: a condition that must hold while a graph runs, as assertions of other frameworks are.
// Implemented in ops/control_flow/check.cpp. check_finite() is in troupe/ops.hpp.
#pragma once

#include <string_view>

#include "troupe/graph.hpp"

namespace troupe {

// x itself, of any type, if all of `condition` holds, which is bool of any shape; so whoever reads
// the result does not run without the check. Else the step fails with Errc::bad_data, saying
// `what`, how many elements do not hold, and where the first one is:
//   ids = check(ids, less(ids, rows), "ids are below the number of rows");
// Gradients flow through x. Throws: Error(invalid_argument) for a condition that is not bool.
Output check(Output x, Output condition, std::string_view what, Origin at = Origin::here());

}  // namespace troupe

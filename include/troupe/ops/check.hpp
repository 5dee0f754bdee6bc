// Check: a condition that must be true while a graph runs, like assertions of other frameworks.
// Implemented in ops/control_flow/check.cpp. check_finite() is in troupe/ops.hpp.
#pragma once

#include <string_view>

#include "troupe/graph.hpp"

namespace troupe {

// x itself, of any type, if all elements of `condition`, bool of any shape, are true; so a reader
// of the result never runs without the check. Otherwise the step fails with Errc::bad_data, saying
// `what`, how many elements are false, and where the first one is:
//   ids = check(ids, less(ids, rows), "ids are below the number of rows");
// Gradients flow through x. Throws: Error(invalid_argument) for a condition that is not bool.
Output check(Output x, Output condition, std::string_view what, Origin at = Origin::here());

}  // namespace troupe

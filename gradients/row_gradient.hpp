// The rows of a gradient that comes only from gathers (troupe/ops/parameters.hpp).
#pragma once

#include <optional>

#include "ops/state/pushes.hpp"

namespace troupe {

// The rows that `gradient`, for `like`, consists of, each once; nothing if it does not come only
// from gathers.
std::optional<RowSparse> rows_of(Output gradient, Output like, Origin at = Origin::here());

// The same rows as they were gathered, with repetitions.
std::optional<RowSparse> gathered_rows_of(Output gradient, Output like, Origin at = Origin::here());

}  // namespace troupe

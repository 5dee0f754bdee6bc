// How the project's ops compute in a scope of mixed precision (Graph::ScopeSpec::compute).
#pragma once

#include <string_view>

#include "troupe/op.hpp"

namespace troupe {

// Of the op of that name; Precision::same for one that ops/precision.cpp does not list.
Precision precision_of(std::string_view op);

}  // namespace troupe

// The ops of the project, one function each, sorted. Each is implemented in the file of its name; ops/all.cpp lists them.
#pragma once

#include "troupe/op.hpp"

namespace troupe {

}  // namespace troupe

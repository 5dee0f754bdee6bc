// The rules of the house that a program can check, each in the file that its comment names.
//
// Plain functions over text, so that the rules themselves can be tested on small bad examples.
#pragma once

#include <string>
#include <vector>

#include "tests/house/source.hpp"

namespace troupe {

// Heads, line lengths, names of types, phrases, log lines (lines.cpp).
std::vector<Violation> check_lines(const Source& file);

}  // namespace troupe

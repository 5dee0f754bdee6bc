// Optimizers as text reads them back, and the check of their settings. Part of the implementation
// of troupe/optimizer.hpp.
#pragma once

#include <string_view>

#include "troupe/optimizer.hpp"

namespace troupe {

// Reads the text of describe(). A setting that is left out has its default in Optimizer; "adam"
// alone is valid. Throws: Error(invalid_argument) for an optimizer that check_optimizer() refuses,
// and for settings that are unknown, given twice, or of another kind of optimizer.
Optimizer optimizer_from_text(std::string_view text);

// Throws: Error(invalid_argument) for an unknown kind of optimizer or schedule, or an unusable
// setting, saying what would be right.
void check_optimizer(const Optimizer& optimizer);

// The optimizer at this rate scale: itself at 1. Throws: Error(invalid_argument) for a scale that
// is no positive number or makes the learning rate infinite, and for ftrl.
Optimizer at_rate_scale(const Optimizer& optimizer, double scale);

}  // namespace troupe

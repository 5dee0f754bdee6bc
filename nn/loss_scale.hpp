// The parameter that holds a moving loss scale (troupe/training/mixed_precision.hpp), by name: what
// is said about a push to it is about the scale.
#pragma once

namespace troupe {

inline constexpr const char* kLossScaleParameter = "loss_scale";

}  // namespace troupe

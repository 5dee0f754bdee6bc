// The name of the parameter that holds a changing loss scale (troupe/optimizer.hpp):
// an error about a push to it is an error about the scale.
#pragma once

namespace troupe {

inline constexpr const char* kLossScaleParameter = "loss_scale";

}  // namespace troupe

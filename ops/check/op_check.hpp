// Shared by the op checks of the library and of the tests, beside include/troupe/custom_op.hpp.
#pragma once

#include <memory>
#include <vector>

#include "devices/device.hpp"
#include "troupe/custom_op.hpp"

namespace troupe {

// The shadow accelerator, and a GPU if there is one; made by the first call.
const std::vector<std::unique_ptr<Device>>& accelerators();

// True if all elements are values of that dtype, apart from the rounding of floats.
bool holds(DType dtype, const Tensor& tensor);
std::vector<double> to_doubles(const Tensor& tensor);
Tensor from_doubles(const std::vector<double>& values, DType dtype, const Shape& shape);

}  // namespace troupe

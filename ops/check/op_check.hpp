// Shared by the op checks of the library and of the tests, beside include/troupe/custom_op.hpp.
#pragma once

#include <memory>
#include <optional>
#include <string>
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

// check_op() for single cases, with the ops of `registry`.
[[nodiscard]] std::vector<std::string> check_value_of(
    const OpCase& c, const std::shared_ptr<const Registry>& registry);
[[nodiscard]] std::vector<std::string> check_gradient_of(
    const OpCase& c, const std::shared_ptr<const Registry>& registry);
[[nodiscard]] std::vector<std::string> check_refusal_of(
    const OpError& e, const std::shared_ptr<const Registry>& registry);

// `tensor` in another dtype: floats are rounded to nearest; bool is 0 and 1, both ways. Requires:
// integers fit.
Tensor converted(const Tensor& tensor, DType dtype);
// Empty if both are approximately equal, dtype and shape included; NaN equals NaN. Otherwise a text
// that says where they differ.
std::optional<std::string> difference(const Tensor& got, const Tensor& expected,
                                      std::optional<double> tolerance = {});

}  // namespace troupe

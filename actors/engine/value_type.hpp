// Checks that a value from outside a step has the type that the graph says, and names its type for
// the error text.
//
// Owner: none, functions. Thread: any.
#pragma once

#include <string>

#include "troupe/tensor.hpp"

namespace troupe {

inline bool has_type(const Tensor& value, DType dtype, const Shape& shape) {
  return value.defined() && value.dtype() == dtype && shape.accepts(value.shape());
}

inline std::string type_text(const Tensor& value) {
  return value.defined() ? detail::concat(value.dtype(), value.shape()) : "nothing";
}

}  // namespace troupe

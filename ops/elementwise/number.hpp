// A number of a program as an element of a tensor.
#pragma once

#include "troupe/tensor.hpp"

namespace troupe {

// True if an element of that dtype can be `number` (floats: to nearest).
bool fits(double number, DType dtype);
// Sets n elements. Requires: fits(number, dtype).
void set_elements(void* elements, DType dtype, double number, int64_t n);

}  // namespace troupe

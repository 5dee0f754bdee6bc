// A number of a program as an element of a tensor.
#pragma once

#include <utility>

#include "troupe/ops/elementwise.hpp"

namespace troupe {

// True if an element of that dtype can be `number` (floats: to nearest).
bool fits(double number, DType dtype);
// Sets n elements. Requires: fits(number, dtype).
void set_elements(void* elements, DType dtype, double number, int64_t n);
// Both inputs of op `what` as Outputs. Throws: Error(invalid_argument) for two numbers, a number
// that is no value of the other side's dtype, and a number beside an undefined Output.
std::pair<Output, Output> outputs_of(const char* what, const Operand& a, const Operand& b,
                                     Origin at);

}  // namespace troupe

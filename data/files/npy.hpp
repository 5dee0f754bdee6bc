// The format of numpy's .npy files (numpy.lib.format): a magic number, a version, the length of a
// header, a header that is a Python dictionary, the elements.
#pragma once

#include <string>

#include "data/files/byte_reader.hpp"
#include "troupe/tensor.hpp"

namespace troupe {

// The bytes before the elements. Throws: Error(invalid_argument) for bf16, which numpy lacks.
std::string npy_header(DType dtype, const Shape& shape);

// Throws: Error(bad_data) for a malformed header, a dtype that no tensor has, or a shape that the
// bytes left do not fit; before memory is taken for the elements.
Tensor tensor_of_npy(ByteReader& bytes);

}  // namespace troupe

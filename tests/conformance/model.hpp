// Reads ONNX's test data from disk: the cases, their models, and tensors converted to Troupe's.
// Reads only the files that libonnx-testdata installs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "conformance/onnx.pb.h"
#include "troupe/tensor.hpp"

namespace troupe {

// Thrown by the readers and the mapping if Troupe has no counterpart. Not an error.
struct NotCovered {
  std::string reason;
};

// Numbers of element types in ONNX's files.
namespace elements {
inline constexpr int kFloat = 1, kUint8 = 2, kUint16 = 4, kInt8 = 3, kInt32 = 6, kInt64 = 7,
                     kBool = 9, kFloat16 = 10, kDouble = 11, kBfloat16 = 16;
}
// Troupe's dtype for an ONNX element type. Throws: NotCovered.
DType dtype_of_onnx(int element_type);
Tensor tensor_of_onnx(const onnx::Tensor& tensor);  // Throws: NotCovered.
// Throws: NotCovered if the value is declared as something other than a tensor, or has a type that
// Troupe does not have. In the body of a loop or branch the type may be missing.
void want_tensor(const onnx::Value& value);

struct OnnxCase {
  std::string name;    // "node/test_abs"
  std::string folder;  // holds model.onnx and the test sets
};
// Checks for the package; its version is "1.12.0-2", or "" if dpkg does not know it.
bool has_onnx_cases();
std::string onnx_package_version();
std::vector<OnnxCase> onnx_cases();  // sorted by name

// Throws: Error(bad_data) for a missing or damaged file.
onnx::Model read_model(const OnnxCase& test);
// The inputs or outputs (`kind`: "input", "output") of one set, in the order that the model
// declares. Throws: NotCovered; Error(bad_data).
using Declared = google::protobuf::RepeatedPtrField<onnx::Value>;
std::vector<Tensor> read_tensors(const std::string& set, const std::string& kind,
                                 const Declared& declared);
std::vector<std::string> sets_of(const OnnxCase& test);  // folders test_data_set_0, ...

}  // namespace troupe

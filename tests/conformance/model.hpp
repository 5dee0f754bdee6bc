// ONNX's test data as it lies on disk: cases, their models, and tensors that become ours. Reads
// what libonnx-testdata installs, and nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "conformance/onnx.pb.h"
#include "troupe/tensor.hpp"

namespace troupe {

// Thrown by whatever reads or maps a model, where Troupe has no counterpart. Not an error.
struct NotCovered {
  std::string reason;
};

// Numbers of element types in ONNX's files.
namespace elements {
inline constexpr int kFloat = 1, kUint8 = 2, kUint16 = 4, kInt8 = 3, kInt32 = 6, kInt64 = 7,
                     kBool = 9, kFloat16 = 10, kDouble = 11, kBfloat16 = 16;
}
// Ours for one of ONNX's. Throws: NotCovered.
DType dtype_of_onnx(int element_type);
Tensor tensor_of_onnx(const onnx::Tensor& tensor);  // Throws: NotCovered.
// Throws: NotCovered for what is declared to be no tensor, or one of elements that there are none
// of. In the body of a loop or branch types may be left out.
void want_tensor(const onnx::Value& value);

struct OnnxCase {
  std::string name;    // "node/test_abs"
  std::string folder;  // where model.onnx and the sets are
};
// Whether the package is there; and its version, "1.12.0-2", or "" if dpkg does not know.
bool has_onnx_cases();
std::string onnx_package_version();
std::vector<OnnxCase> onnx_cases();  // sorted by name

// Throws: Error(bad_data) for a file that is not there or damaged.
onnx::Model read_model(const OnnxCase& test);
// Inputs or outputs ("input", "output") of one set, in order, which the model declares so. Throws:
// NotCovered; Error(bad_data).
using Declared = google::protobuf::RepeatedPtrField<onnx::Value>;
std::vector<Tensor> read_tensors(const std::string& set, const std::string& kind,
                                 const Declared& declared);
std::vector<std::string> sets_of(const OnnxCase& test);  // folders test_data_set_0, ...

}  // namespace troupe

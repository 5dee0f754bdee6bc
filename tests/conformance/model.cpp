// Reads models and tensors of libonnx-testdata.
#include "tests/conformance/model.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <type_traits>

namespace troupe {
namespace {

namespace fs = std::filesystem;

const char* const kFolder = "/usr/share/libonnx-testdata/data";

std::string element_name(int type) {
  static const std::vector<std::string> names = {
      "undefined", "float",  "uint8",     "int8",       "uint16",  "int16",
      "int32",     "int64",  "string",    "bool",       "float16", "double",
      "uint32",    "uint64", "complex64", "complex128", "bfloat16"};
  const auto i = static_cast<size_t>(type);
  return i < names.size() ? names[i] : "number " + std::to_string(type);
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(Errc::bad_data, path, " cannot be read");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

template <class Message>
Message parse(const std::string& path) {
  Message message;
  if (!message.ParseFromString(bytes_of(path)))
    throw Error(Errc::bad_data, path, " is not what ONNX writes");
  return message;
}

// 16-bit numbers are stored as their bits.
template <class T, class Field>
void copy_field(const Field& field, Tensor& to) {
  if (field.size() != to.size())
    throw Error(Errc::bad_data, "a tensor of shape ", to_string(to.shape()), " has ", field.size(),
                " elements");
  std::transform(field.begin(), field.end(), to.mutable_data<T>(), [](const auto& value) {
    if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>)
      return std::bit_cast<T>(static_cast<uint16_t>(value));
    else
      return static_cast<T>(value);
  });
}

}  // namespace

DType dtype_of_onnx(int element_type) {
  switch (element_type) {
    case elements::kFloat:
      return DType::f32;
    case elements::kUint8:
      return DType::u8;
    case elements::kInt8:
      return DType::i8;
    case elements::kInt32:
      return DType::i32;
    case elements::kInt64:
      return DType::i64;
    case elements::kBool:
      return DType::boolean;
    case elements::kFloat16:
      return DType::f16;
    case elements::kDouble:
      return DType::f64;
    case elements::kBfloat16:
      return DType::bf16;
    default:
      throw NotCovered{"no elements of " + element_name(element_type)};
  }
}

Tensor tensor_of_onnx(const onnx::Tensor& tensor) {
  const DType dtype = dtype_of_onnx(tensor.data_type());
  Tensor to =
      Tensor::empty(dtype, Shape(std::vector<int64_t>(tensor.dims().begin(), tensor.dims().end())));
  if (!tensor.raw_data().empty() || to.size() == 0) {
    if (tensor.raw_data().size() != static_cast<size_t>(to.byte_size()))
      throw Error(Errc::bad_data, "a tensor of shape ", to_string(to.shape()), " has ",
                  tensor.raw_data().size(), " bytes");
    std::memcpy(to.mutable_raw(), tensor.raw_data().data(), tensor.raw_data().size());
    return to;
  }
  with_type(dtype, [&]<class T>(T) {
    if constexpr (std::is_same_v<T, float>)
      copy_field<T>(tensor.float_data(), to);
    else if constexpr (std::is_same_v<T, double>)
      copy_field<T>(tensor.double_data(), to);
    else if constexpr (std::is_same_v<T, int64_t>)
      copy_field<T>(tensor.int64_data(), to);
    else
      copy_field<T>(tensor.int32_data(), to);
  });
  return to;
}

void want_tensor(const onnx::Value& value) {
  if (!value.has_type()) return;
  if (!value.type().has_tensor_type())
    throw NotCovered{"no values but tensors (sequences, optional values)"};
  dtype_of_onnx(value.type().tensor_type().elem_type());
}

bool has_onnx_cases() { return fs::is_directory(kFolder); }

std::string onnx_package_version() {
  const char* command = "dpkg-query -W -f '${Version}' libonnx-testdata 2>/dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command, "r"), pclose);
  char text[64] = {};
  if (!pipe || !std::fgets(text, sizeof text, pipe.get())) return "";
  return text;
}

std::vector<OnnxCase> onnx_cases() {
  std::vector<OnnxCase> cases;
  for (const auto& suite : fs::directory_iterator(kFolder))
    for (const auto& test : fs::directory_iterator(suite))
      cases.push_back(
          {suite.path().filename().string() + "/" + test.path().filename().string(), test.path()});
  std::sort(cases.begin(), cases.end(),
            [](const OnnxCase& a, const OnnxCase& b) { return a.name < b.name; });
  return cases;
}

onnx::Model read_model(const OnnxCase& test) {
  if (!fs::exists(test.folder + "/model.onnx"))
    throw NotCovered{"the package holds no weights of this model"};
  return parse<onnx::Model>(test.folder + "/model.onnx");
}

std::vector<Tensor> read_tensors(const std::string& set, const std::string& kind,
                                 const Declared& declared) {
  std::vector<Tensor> tensors;
  for (int i = 0; i < declared.size(); ++i) {
    const std::string path = detail::concat(set, "/", kind, "_", i, ".pb");
    if (!fs::exists(path)) break;  // the rest are initializers
    auto tensor = parse<onnx::Tensor>(path);
    // The files hold the bits of bfloat16 as whole numbers, since NumPy has no such type.
    if (declared[i].type().tensor_type().elem_type() == elements::kBfloat16 &&
        tensor.data_type() == elements::kUint16)
      tensor.set_data_type(elements::kBfloat16);
    tensors.push_back(tensor_of_onnx(tensor));
  }
  return tensors;
}

std::vector<std::string> sets_of(const OnnxCase& test) {
  std::vector<std::string> sets;
  for (const auto& entry : fs::directory_iterator(test.folder))
    if (entry.is_directory()) sets.push_back(entry.path());
  std::sort(sets.begin(), sets.end());
  return sets;
}

}  // namespace troupe

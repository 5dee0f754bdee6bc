// Compares and converts tensors for op checks (ops/check/op_check.hpp).
#include <algorithm>
#include <cmath>

#include "ops/check/op_check.hpp"

namespace troupe {
namespace {

constexpr int64_t kAcceleratorBytes = int64_t{1} << 30;

std::string position(const Shape& shape, int64_t i) {
  std::vector<int64_t> index(static_cast<size_t>(shape.ndim()));
  for (int d = shape.ndim() - 1; d >= 0; --d) {
    index[static_cast<size_t>(d)] = i % shape[d];
    i /= shape[d];
  }
  return to_string(Shape(index));
}

}  // namespace

const std::vector<std::unique_ptr<Device>>& accelerators() {
  static const auto all = [] {
    std::vector<std::unique_ptr<Device>> devices;
    devices.push_back(make_shadow_device("/job:test/task:0/device:shadow:0", kAcceleratorBytes));
    if (cuda_device_count() > 0)
      devices.push_back(make_cuda_device("/job:test/task:0/device:cuda:0", 0, kAcceleratorBytes));
    return devices;
  }();
  return all;
}

std::vector<double> to_doubles(const Tensor& tensor) {
  std::vector<double> values;
  with_type(tensor.dtype(), [&]<class T>(T) {
    for (T value : tensor.values<T>()) values.push_back(static_cast<double>(value));
  });
  return values;
}

Tensor from_doubles(const std::vector<double>& values, DType dtype, const Shape& shape) {
  Tensor tensor = Tensor::empty(dtype, shape);
  TROUPE_CHECK(tensor.size() == static_cast<int64_t>(values.size()), values.size(),
               " values do not fill ", shape);
  with_type(dtype, [&]<class T>(T) {
    T* to = tensor.mutable_data<T>();
    for (size_t i = 0; i < values.size(); ++i) to[i] = static_cast<T>(values[i]);
  });
  return tensor;
}

bool holds(DType dtype, const Tensor& tensor) {
  if (is_floating(dtype)) return true;
  double low = 0, high = 1;
  if (dtype == DType::u8) high = 255;
  if (dtype == DType::i8) low = -128, high = 127;
  if (dtype == DType::i32) low = -2147483648.0, high = 2147483647.0;
  if (dtype == DType::i64) low = -0x1p53, high = 0x1p53;
  for (double v : to_doubles(tensor))
    if (!(v >= low && v <= high) || v != std::floor(v)) return false;
  return true;
}

Tensor converted(const Tensor& tensor, DType dtype) {
  TROUPE_CHECK(holds(dtype, tensor), tensor, " does not fit into ", dtype);
  return from_doubles(to_doubles(tensor), dtype, tensor.shape());
}

std::optional<std::string> difference(const Tensor& got, const Tensor& expected,
                                      std::optional<double> tolerance) {
  if (!got.defined()) return "got no tensor";
  if (got.dtype() != expected.dtype() || got.shape() != expected.shape())
    return detail::concat("got ", got.dtype(), got.shape(), ", expected ", expected.dtype(),
                          expected.shape());
  double bound = 0;
  if (is_floating(got.dtype())) bound = got.dtype() == DType::f32 ? 1e-5 : 1e-12;
  if (is_floating(got.dtype()) && tolerance) bound = *tolerance;
  // At least one unit in the last place: sums in another order may round to the neighbouring
  // number.
  if (is_half(got.dtype())) bound = std::max(bound, got.dtype() == DType::bf16 ? 0x1p-7 : 0x1p-10);
  const auto g = to_doubles(got), e = to_doubles(expected);
  for (size_t i = 0; i < g.size(); ++i) {
    if (g[i] == e[i] || (std::isnan(g[i]) && std::isnan(e[i]))) continue;
    if (std::isfinite(e[i]) && std::abs(g[i] - e[i]) <= bound * std::max(1.0, std::abs(e[i])))
      continue;
    return detail::concat("at ", position(got.shape(), static_cast<int64_t>(i)), ": got ", g[i],
                          ", expected ", e[i], "; all: ", got);
  }
  return {};
}

}  // namespace troupe

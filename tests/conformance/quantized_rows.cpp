// Rows of ONNX's ops on quantised numbers; Troupe's functions compute them as floats or wider
// integers.
#include "tests/conformance/windows.hpp"

namespace troupe {
namespace {

// One number, or one for each place along `axis` of `like`.
Output along(Output x, Output like, int64_t axis) {
  if (x.shape().ndim() == 0) return x;
  std::vector<int64_t> dims(static_cast<size_t>(like.shape().ndim() - axis), 1);
  dims[0] = -1;
  return reshape(x, Shape(dims));
}

int64_t quantized_axis(const NodeCall& c, Output x) {
  return axis_of(c.integer("axis", 1), x.shape().ndim());
}

Output quantize(Output x, Output scale, Output zero) {
  return cast(clip(round(x / scale) + cast(zero, x.dtype()), 0, 255), zero.dtype());
}

Output dequantize(Output x, Output scale, Output zero) {
  return (cast(x, scale.dtype()) - cast(zero, scale.dtype())) * scale;
}

// Input i minus its zero point, which is input `zero` if present.
Output centred(const NodeCall& c, int i, int zero, DType dtype) {
  const Output x = cast(c.input(i), dtype);
  return c.has_input(zero) ? x - cast(c.input(zero), dtype) : x;
}

std::vector<Output> quantize_row(const NodeCall& c) {
  const Output x = c.input(0);
  const int64_t axis = quantized_axis(c, x);
  return {quantize(x, along(c.input(1), x, axis), along(c.input(2), x, axis))};
}

std::vector<Output> dequantize_row(const NodeCall& c) {
  const Output x = c.input(0);
  const int64_t axis = quantized_axis(c, x);
  return {dequantize(x, along(c.input(1), x, axis), along(c.input(2), x, axis))};
}

std::vector<Output> dynamic_quantize_row(const NodeCall& c) {
  const Output x = c.input(0), zero = number_like(x, 0);
  const Output low = minimum(reduce_min(x), zero), high = maximum(reduce_max(x), zero);
  const Output scale = (high - low) / 255.0;
  const Output point = cast(clip(round(-low / scale), 0, 255), DType::u8);
  return {quantize(x, scale, point), scale, point};
}

std::vector<Output> mat_mul_integer_row(const NodeCall& c) {
  return {matmul(centred(c, 0, 2, DType::i32), centred(c, 1, 3, DType::i32))};
}

std::vector<Output> quantized_mat_mul_row(const NodeCall& c) {
  const Output y = matmul(centred(c, 0, 2, DType::i32), centred(c, 3, 5, DType::i32));
  const Output real = cast(y, DType::f32) * c.input(1) * c.input(4);
  return {quantize(real, c.input(6), c.input(7))};
}

// Sums of products of 8-bit numbers are exact in f64.
std::vector<Output> conv_integer_row(const NodeCall& c) {
  const Output y = convolve(c, centred(c, 0, 2, DType::f64), centred(c, 1, 3, DType::f64));
  return {cast(y, DType::i32)};
}

std::vector<Output> quantized_conv_row(const NodeCall& c) {
  if (c.has_input(8)) throw NotCovered{"a quantised bias"};
  const Output y = convolve(c, centred(c, 0, 2, DType::f64), centred(c, 3, 5, DType::f64));
  const Output real = cast(y, DType::f32) * c.input(1) * along(c.input(4), y, 1);
  return {quantize(real, c.input(6), c.input(7))};
}

}  // namespace

std::vector<MappedOp> quantized_rows() {
  return {
      {"ConvInteger", "convolution, cast", conv_integer_row},
      {"DequantizeLinear", "cast, multiply", dequantize_row},
      {"DynamicQuantizeLinear", "round, clip, cast", dynamic_quantize_row},
      {"MatMulInteger", "matmul, cast", mat_mul_integer_row},
      {"QLinearConv", "convolution, round, clip, cast", quantized_conv_row},
      {"QLinearMatMul", "matmul, round, clip, cast", quantized_mat_mul_row},
      {"QuantizeLinear", "round, clip, cast", quantize_row},
  };
}

}  // namespace troupe

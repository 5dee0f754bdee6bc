// Rows of ONNX's element-wise ops.
#include <cmath>

#include "tests/conformance/mapping.hpp"

namespace troupe {
namespace {

using Unary = Output (*)(Output, Origin);
using Binary = Output (*)(Operand, Operand, Origin);

MappedOp unary(std::string op, std::string by, Unary f) {
  return {op, by, [f](const NodeCall& c) { return std::vector{f(c.input(0), Origin::here())}; }};
}

// Before version 7, `axis` is the dimension of a that matches the first dimension of b.
Output aligned(const NodeCall& c) {
  const Output a = c.input(0), b = c.input(1);
  const int rank = b.shape().ndim();
  if (c.opset >= 7 || c.integer("broadcast", 0) == 0 || rank == a.shape().ndim()) return b;
  const int64_t axis = axis_of(c.integer("axis", a.shape().ndim() - rank), a.shape().ndim());
  std::vector<int64_t> dims(b.shape().begin(), b.shape().end());
  dims.resize(static_cast<size_t>(a.shape().ndim() - axis), 1);
  return reshape(b, Shape(dims));
}

MappedOp binary(std::string op, std::string by, Binary f) {
  return {op, by, [f](const NodeCall& c) {
            return std::vector{f(c.input(0), aligned(c), Origin::here())};
          }};
}

Output fold(const NodeCall& c, Binary f) {
  Output all = identity(c.input(0));
  for (int i = 1; i < c.input_count(); ++i) all = f(all, c.input(i), Origin::here());
  return all;
}

MappedOp several(std::string op, std::string by, Binary f) {
  return {op, by, [f](const NodeCall& c) { return std::vector{fold(c, f)}; }};
}

Output greater_than(Output x, double bound) { return greater(x, number_like(x, bound)); }
Output less_than(Output x, double bound) { return less(x, number_like(x, bound)); }

std::vector<Output> clip_row(const NodeCall& c) {
  const auto bound = [&](const char* name, int i, double otherwise) {
    return c.has_input(i) ? c.number(c.input(i)) : c.real(name, otherwise);
  };
  return {clip(c.input(0), bound("min", 1, -INFINITY), bound("max", 2, INFINITY))};
}

// The result has the type of the base.
std::vector<Output> pow_row(const NodeCall& c) {
  const Output a = c.input(0), b = aligned(c);
  if (a.dtype() == b.dtype()) return {pow(a, b)};
  if (is_floating(a.dtype())) return {pow(a, cast(b, a.dtype()))};
  return {cast(pow(cast(a, DType::f64), cast(b, DType::f64)), a.dtype())};
}

// fmod: the sign is that of the dividend, as in C.
std::vector<Output> mod_row(const NodeCall& c) {
  const Output a = c.input(0), b = c.input(1);
  if (c.integer("fmod", 0) == 0) return {mod(a, b)};
  return {fmod(a, b)};
}

std::vector<Output> is_inf_row(const NodeCall& c) {
  const Output x = c.input(0);
  Output y = is_inf(x);
  if (c.integer("detect_negative", 1) == 0) y = logical_and(y, greater_than(x, 0));
  if (c.integer("detect_positive", 1) == 0) y = logical_and(y, less_than(x, 0));
  return {y};
}

std::vector<Output> bit_shift_row(const NodeCall& c) {
  const bool left = c.text("direction", "") == "LEFT";
  return {left ? left_shift(c.input(0), c.input(1)) : right_shift(c.input(0), c.input(1))};
}

// selu has the constants of Klambauer et al. (2017).
std::vector<Output> selu_row(const NodeCall& c) {
  const double alpha = c.real("alpha", 1.67326324), gamma = c.real("gamma", 1.05070099);
  if (std::abs(alpha - 1.67326324) < 1e-5 && std::abs(gamma - 1.05070099) < 1e-5)
    return {selu(c.input(0))};
  return {elu(c.input(0), alpha) * gamma};
}

std::vector<Output> prelu_row(const NodeCall& c) {
  const Output x = c.input(0);
  Output slope = c.input(1);
  if (c.opset < 7 && slope.shape().ndim() == 1) {  // one for each channel
    std::vector<int64_t> dims(static_cast<size_t>(x.shape().ndim() - 1), 1);
    dims[0] = slope.shape()[0];
    slope = reshape(slope, Shape(dims));
  }
  return {where(greater_than(x, 0), x, x * slope)};
}

std::vector<Output> shrink_row(const NodeCall& c) {
  const Output x = c.input(0);
  const double lambda = c.real("lambd", 0.5), bias = c.real("bias", 0);
  const Output low = where(less_than(x, -lambda), x + bias, number_like(x, 0));
  return {where(greater_than(x, lambda), x - bias, low)};
}

std::vector<Output> hard_sigmoid_row(const NodeCall& c) {
  return {clip(c.input(0) * c.real("alpha", 0.2) + c.real("beta", 0.5), 0, 1)};
}

std::vector<Output> celu_row(const NodeCall& c) {
  const double alpha = c.real("alpha", 1);
  return {elu(c.input(0) / alpha) * alpha};
}

std::vector<Output> thresholded_relu_row(const NodeCall& c) {
  const Output x = c.input(0);
  return {where(greater_than(x, c.real("alpha", 1)), x, number_like(x, 0))};
}

std::vector<MappedOp> plain_rows() {
  return {
      unary("Abs", "abs", abs),
      unary("Acos", "acos", acos),
      unary("Acosh", "acosh", acosh),
      unary("Asin", "asin", asin),
      unary("Asinh", "asinh", asinh),
      unary("Atan", "atan", atan),
      unary("Atanh", "atanh", atanh),
      unary("Ceil", "ceil", ceil),
      unary("Cos", "cos", cos),
      unary("Cosh", "cosh", cosh),
      unary("Erf", "erf", erf),
      unary("Exp", "exp", exp),
      unary("Floor", "floor", floor),
      unary("IsNaN", "is_nan", is_nan),
      unary("Log", "log", log),
      unary("Neg", "negate", negate),
      unary("Not", "logical_not", logical_not),
      unary("Reciprocal", "reciprocal", reciprocal),
      unary("Relu", "relu", relu),
      unary("Round", "round", round),
      unary("Sigmoid", "sigmoid", sigmoid),
      unary("Sign", "sign", sign),
      unary("Sin", "sin", sin),
      unary("Sinh", "sinh", sinh),
      unary("Softplus", "softplus", softplus),
      unary("Softsign", "softsign", softsign),
      unary("Sqrt", "sqrt", sqrt),
      unary("Tan", "tan", tan),
      unary("Tanh", "tanh", tanh),
      binary("Add", "add", add),
      binary("And", "logical_and", logical_and),
      binary("Div", "divide", divide),
      binary("Equal", "equal", equal),
      binary("Greater", "greater", greater),
      binary("GreaterOrEqual", "greater_equal", greater_equal),
      binary("Less", "less", less),
      binary("LessOrEqual", "less_equal", less_equal),
      binary("Mul", "multiply", multiply),
      binary("Or", "logical_or", logical_or),
      binary("Sub", "subtract", subtract),
      binary("Xor", "logical_xor", logical_xor),
      several("Max", "maximum", maximum),
      several("Min", "minimum", minimum),
      several("Sum", "add", add),
  };
}

}  // namespace

std::vector<MappedOp> elementwise_rows() {
  std::vector<MappedOp> rows = plain_rows();
  const std::vector<MappedOp> composed = {
      {"BitShift", "left_shift, right_shift", bit_shift_row},
      {"Cast", "cast",
       [](const NodeCall& c) {
         return std::vector{cast(c.input(0), dtype_of_onnx(static_cast<int>(c.integer("to", 0))))};
       }},
      {"CastLike", "cast",
       [](const NodeCall& c) { return std::vector{cast(c.input(0), c.input(1).dtype())}; }},
      {"Celu", "elu", celu_row},
      {"Clip", "clip", clip_row},
      {"Elu", "elu",
       [](const NodeCall& c) { return std::vector{elu(c.input(0), c.real("alpha", 1))}; }},
      {"HardSigmoid", "clip", hard_sigmoid_row},
      {"HardSwish", "hard_sigmoid",
       [](const NodeCall& c) { return std::vector{c.input(0) * hard_sigmoid(c.input(0))}; }},
      {"Identity", "identity", [](const NodeCall& c) { return std::vector{identity(c.input(0))}; }},
      {"IsInf", "is_inf", is_inf_row},
      {"LeakyRelu", "leaky_relu",
       [](const NodeCall& c) {
         return std::vector{leaky_relu(c.input(0), c.real("alpha", 0.01))};
       }},
      {"Mean", "add, divide",
       [](const NodeCall& c) { return std::vector{fold(c, add) / c.input_count()}; }},
      {"Mod", "mod", mod_row},
      {"PRelu", "where", prelu_row},
      {"Pow", "pow", pow_row},
      {"Selu", "selu", selu_row},
      {"Shrink", "where", shrink_row},
      {"ThresholdedRelu", "where", thresholded_relu_row},
      {"Where", "where",
       [](const NodeCall& c) { return std::vector{where(c.input(0), c.input(1), c.input(2))}; }},
  };
  rows.insert(rows.end(), composed.begin(), composed.end());
  return rows;
}

}  // namespace troupe

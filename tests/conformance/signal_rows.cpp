// Rows of ONNX's window functions of signals: sums of cosines over the window.
#include <numbers>

#include "tests/conformance/mapping.hpp"

namespace troupe {
namespace {

// a - b cos(2 pi i / n) + c cos(4 pi i / n) for each i in [0, size); n is the size, or size - 1 if
// the window is symmetric. (Harris, "On the use of windows for harmonic analysis", 1978)
std::vector<Output> window(const NodeCall& call, double a, double b, double c) {
  const Output size = cast(call.input(0), DType::f64);
  const Output i = range(number_like(size, 0), size, number_like(size, 1));
  const Output n = call.integer("periodic", 1) ? size : size - 1;
  const Output turn = i * (2 * std::numbers::pi) / n;
  const Output y = a - b * cos(turn) + c * cos(turn * 2);
  return {cast(y, dtype_of_onnx(static_cast<int>(call.integer("output_datatype", 1))))};
}

}  // namespace

std::vector<MappedOp> signal_rows() {
  return {
      {"BlackmanWindow", "range, cos",
       [](const NodeCall& c) { return window(c, 0.42, 0.5, 0.08); }},
      {"HammingWindow", "range, cos",
       [](const NodeCall& c) { return window(c, 25.0 / 46, 21.0 / 46, 0); }},
      {"HannWindow", "range, cos", [](const NodeCall& c) { return window(c, 0.5, 0.5, 0); }},
  };
}

}  // namespace troupe

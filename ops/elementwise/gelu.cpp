// Gelu: y = x * P(X <= x) for a standard normal X, element-wise (Hendrycks and Gimpel 2016); 0 at
// -infinity.
//   exact:        y = x / 2 * erfc(-x / sqrt(2)), which does not cancel where x is far below 0
//   approximate:  y = x / 2 * (1 + tanh(u)), u = sqrt(2 / pi) * (x + 0.044715 x^3), and as
//                 (1 + tanh(u)) / 2 = sigmoid(2u), one exponential is enough.
#include <limits>
#include <numbers>

#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

constexpr double kRootHalf = std::numbers::sqrt2 / 2;
constexpr double kRootTwoOverPi = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
constexpr double kCubic = 0.044715;

// Writing dy for dL/dy:  dx = dy * slope.
//   exact:        slope = p(X <= x) + x * e^(-x^2 / 2) / sqrt(2 pi)
//   approximate:  slope = s + x * s * (1 - s) * 2u', s being sigmoid(2u).
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), dy = ctx.output_gradient(0), xx = square(x);
  if (ctx.attr<bool>("approximate")) {
    const Output s = sigmoid(x * (xx * (2 * kRootTwoOverPi * kCubic) + 2 * kRootTwoOverPi));
    const Output inner_slope = xx * (6 * kRootTwoOverPi * kCubic) + 2 * kRootTwoOverPi;
    return {dy * (s + ctx.output(0) * (1 - s) * inner_slope)};
  }
  const Output chance = erfc(x * -kRootHalf) * 0.5;
  const Output density = exp(xx * -0.5) * (kRootTwoOverPi / 2);
  return {dy * (chance + x * density)};
}

struct Gelu {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x) {
    const T chance = math::erfc(static_cast<T>(-kRootHalf) * x) / 2;
    return chance == T{0} ? T{0} : x * chance;  // not -infinity * 0
  }
};

struct ApproximateGelu {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x) {
    constexpr T kLinear = static_cast<T>(-2 * kRootTwoOverPi);
    constexpr T kCube = static_cast<T>(-2 * kRootTwoOverPi * kCubic);
    const T e = math::exp(x * (kLinear + kCube * x * x));
    return e == std::numeric_limits<T>::infinity() ? T{0} : x / (1 + e);
  }
};

template <class T>
void cpu(KernelContext& ctx) {
  (ctx.attr<bool>("approximate") ? run_unary<ApproximateGelu, T> : run_unary<Gelu, T>)(ctx);
}

template <class T>
void elements(const ElementRun& run) {
  const bool approximate = run.node->attr<bool>("approximate");
  (approximate ? unary_elements<ApproximateGelu, T> : unary_elements<Gelu, T>)(run);
}

}  // namespace

Op gelu_op() {
  return {.name = "Gelu",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {{"approximate", AttrKind::boolean, false}},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = {{.dtype = DType::f32, .run = cpu<float>, .elements = elements<float>},
                      {.dtype = DType::f64, .run = cpu<double>, .elements = elements<double>}},
          .in_place = true};
}

Output gelu(Output x, bool approximate, Origin at) {
  return add_node({.op = "Gelu", .inputs = {x}, .attrs = {{"approximate", approximate}}}, at);
}

}  // namespace troupe

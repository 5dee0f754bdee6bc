// Activations. NaN stays NaN.
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "ops/elementwise/rows.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

struct Relu {
  template <class T>
  static T apply(T x) {
    return x < T{0} ? T{0} : x;
  }
};

struct Relu6 {
  template <class T>
  static T apply(T x) {
    const T at_most = x > T{6} ? T{6} : x;
    return at_most < T{0} ? T{0} : at_most;
  }
};

struct HardSigmoid {
  template <class T>
  static T apply(T x) {
    const T line = (x + 3) / 6, at_most = line > T{1} ? T{1} : line;
    return at_most < T{0} ? T{0} : at_most;
  }
};

struct Softsign {
  template <class T>
  static T apply(T x) {
    const T a = std::abs(x), finite = x / (1 + a);
    return a == std::numeric_limits<T>::infinity() ? std::copysign(T{1}, x) : finite;
  }
};

// dx = dy where 0 < y < most, else 0.
Output inside(Output y, double most, Output dy) {
  const Output zero = constant_like(0, y), end = constant_like(most, y);
  return where(greater(y, zero), where(greater(end, y), dy, zero), zero);
}

// A function of an element and the attribute `alpha`, which must be finite.
struct Alpha {
  template <class T>
  static std::array<T, 1> arguments(const Node& node) {
    return {static_cast<T>(node.attr<double>("alpha"))};
  }
};

std::vector<Shape> infer_alpha(const InferContext& ctx) {
  const double alpha = ctx.attr<double>("alpha");
  if (!std::isfinite(alpha)) throw ctx.error("wants a finite alpha, got ", alpha);
  return infer_same_shape(ctx);
}

struct LeakyRelu : Alpha {
  template <class T>
  static T apply(T x, T alpha) {
    const T scaled = alpha * x;
    return x > T{0} ? x : scaled;
  }
};
// dx = dy where x > 0, else alpha * dy (at 0 as well).
std::vector<Output> leaky_relu_gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), dy = ctx.output_gradient(0);
  return {where(greater(x, constant_like(0, x)), dy, dy * ctx.attr<double>("alpha"))};
}

struct Elu : Alpha {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x, T alpha) {
    const T negative = alpha * math::expm1(x > T{0} ? T{0} : x);
    return x > T{0} ? x : negative;
  }
};
// dx = dy where x > 0, else dy * (y + alpha), which is dy * alpha * e^x.
std::vector<Output> elu_gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), y = ctx.output(0), dy = ctx.output_gradient(0);
  const Output slope = y + ctx.attr<double>("alpha");
  return {where(greater(x, constant_like(0, x)), dy, dy * slope)};
}

// With this scale and this alpha, activations keep mean 0 and variance 1 (Klambauer et al. 2017,
// equation 14).
constexpr double kScale = 1.0507009873554804934193349852946;
constexpr double kScaleAlpha = kScale * 1.6732632423543772848170429916717;
constexpr auto selu_of = []<class T>(T x) {
  const T positive = static_cast<T>(kScale) * x;
  const T negative = static_cast<T>(kScaleAlpha) * math::expm1(x > T{0} ? T{0} : x);
  return x > T{0} ? positive : negative;
};

// The second form of 1 / (1 + e^-x) = e^x / (1 + e^x) is exact down to denormal numbers, where e^-x
// overflows.
constexpr auto sigmoid_of = []<class T>(T x) {
  const T most = sizeof(T) == 4 ? 80 : 700;  // from far below on, y is 1, and e^x is finite
  const T e = math::exp(most < x ? most : x);
  return e / (1 + e);
};

constexpr auto silu_of = []<class T>(T x) {
  const T e = math::exp(-std::abs(x));  // at most 1
  const T s = (x > T{0} ? T{1} : e) / (1 + e);
  return s == T{0} ? T{0} : x * s;
};

constexpr auto softplus_of = []<class T>(T x) {
  const T positive = x > T{0} ? x : T{0};
  return positive + math::log1p(math::exp(-std::abs(x)));
};

// As tanh(log(u)) = (u^2 - 1) / (u^2 + 1), one exponential is enough. With e = e^-|x|, which never
// overflows, and u = 1 + e^x, that is a / (a + b):
//   x > 0: a = 1 + 2e, b = 2e^2;  else: a = 2e + e^2, b = 2.
constexpr auto mish_of = []<class T>(T x) {
  const T e = math::exp(-std::abs(x));
  const bool positive = x > T{0};
  const T a = positive ? 1 + 2 * e : e * (2 + e), b = positive ? 2 * e * e : T{2};
  const T t = a / (a + b);
  return t == T{0} ? T{0} : x * t;
};

// Gelu:
//   exact:        y = x / 2 * erfc(-x / sqrt(2)), which does not cancel where x is far below 0
//   approximate:  y = x / 2 * (1 + tanh(u)), u = sqrt(2 / pi) * (x + 0.044715 x^3), and as
//                 (1 + tanh(u)) / 2 = sigmoid(2u), one exponential is enough.
constexpr double kRootHalf = std::numbers::sqrt2 / 2;
constexpr double kRootTwoOverPi = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
constexpr double kCubic = 0.044715;

using Gelu = Whole<[]<class T>(T x) {
  const T chance = math::erfc(static_cast<T>(-kRootHalf) * x) / 2;
  return chance == T{0} ? T{0} : x * chance;  // not -infinity * 0
}>;
using ApproximateGelu = Whole<[]<class T>(T x) {
  constexpr T kLinear = static_cast<T>(-2 * kRootTwoOverPi);
  constexpr T kCube = static_cast<T>(-2 * kRootTwoOverPi * kCubic);
  const T e = math::exp(x * (kLinear + kCube * x * x));
  return e == std::numeric_limits<T>::infinity() ? T{0} : x / (1 + e);
}>;

template <class T>
void gelu_map(const Node& node, const void* x, void* y, int64_t n) {
  const bool approximate = node.attr<bool>("approximate");
  (approximate ? map_any<ApproximateGelu, T, T> : map_any<Gelu, T, T>)(node, x, y, n);
}

// The slope:
//   exact:        p(X <= x) + x * e^(-x^2 / 2) / sqrt(2 pi)
//   approximate:  s + x * s * (1 - s) * 2u', s being sigmoid(2u).
std::vector<Output> gelu_gradient(const GradientContext& ctx) {
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

}  // namespace

std::vector<Op> activation_ops() {
  return {
      // y = max(x, 0). The slope is 0 at 0.
      unary({.name = "Relu",
             .gradient = dx<[](Output, Output y, Output dy) {
               const Output zero = constant_like(0, dy);
               return where(greater(y, zero), dy, zero);
             }>,
             .kernels = with_i8(unary_kernels<Relu, float, double, int32_t, int64_t>())}),
      // y = min(max(x, 0), 6). The slope is 0 at 0 and at 6.
      unary({.name = "Relu6",
             .gradient = dx<[](Output, Output y, Output dy) { return inside(y, 6, dy); }>,
             .kernels = with_i8(unary_kernels<Relu6, float, double, int32_t, int64_t>())}),
      // y = x where x > 0, else alpha * x
      unary({.name = "LeakyRelu",
             .attrs = {{"alpha", AttrKind::real, 0.2}},
             .infer_shapes = infer_alpha,
             .gradient = leaky_relu_gradient,
             .kernels = unary_kernels<LeakyRelu, float, double>()}),
      // y = x where x > 0, else alpha * (e^x - 1) (Clevert et al. 2016, equation 7)
      unary({.name = "Elu",
             .attrs = {{"alpha", AttrKind::real, 1.0}},
             .infer_shapes = infer_alpha,
             .gradient = elu_gradient,
             .kernels = unary_kernels<Elu, float, double>()}),
      // y = scale * x where x > 0, else scale * alpha * (e^x - 1)
      unary({.name = "Selu",
             .gradient = dx<[](Output x, Output y, Output dy) {
               return dy * where(greater(x, constant_like(0, x)), constant_like(kScale, x),
                                 y + kScaleAlpha);
             }>,
             .kernels = math_kernels<selu_of>()}),
      // y = 1 / (1 + e^-x)
      unary({.name = "Sigmoid",
             .gradient = dx<[](Output, Output y, Output dy) {
               return multiply(multiply(dy, y), subtract(constant_like(1, y), y));
             }>,
             .kernels = math_kernels<sigmoid_of>()}),
      // y = min(max((x + 3) / 6, 0), 1), as in PyTorch and Keras 3 (Howard et al. 2019,
      // section 5.2).
      // The slope is 0 at -3 and 3.
      unary({.name = "HardSigmoid",
             .gradient = dx<[](Output, Output y, Output dy) {
               const Output zero = constant_like(0, y), one = constant_like(1, y);
               return where(greater(y, zero), where(greater(one, y), dy / 6, zero), zero);
             }>,
             .kernels = unary_kernels<HardSigmoid, float, double>()}),
      // y = x * P(X <= x) for a standard normal X (Hendrycks and Gimpel 2016); 0 at -infinity
      unary({.name = "Gelu",
             .attrs = {{"approximate", AttrKind::boolean, false}},
             .gradient = gelu_gradient,
             .kernels = {map_kernel<gelu_map<float>, float>(),
                         map_kernel<gelu_map<double>, double>()}}),
      // y = x * sigmoid(x), also called Swish (Ramachandran et al. 2017); 0 at -infinity. With
      // s = sigmoid(x), the slope is s + x * s * (1 - s) = s + y * (1 - s).
      unary({.name = "Silu",
             .gradient = dx<[](Output x, Output y, Output dy) {
               const Output s = sigmoid(x);
               return dy * (s + y * (1 - s));
             }>,
             .kernels = math_kernels<silu_of>()}),
      // y = log(1 + e^x), as max(x, 0) + log1p(e^-|x|): nothing overflows.
      unary({.name = "Softplus",
             .gradient = dx<[](Output x, Output, Output dy) { return dy * sigmoid(x); }>,
             .kernels = math_kernels<softplus_of>(),
             .precision = Precision::wide}),
      // y = x / (1 + |x|); -1 and 1 at the infinities
      unary({.name = "Softsign",
             .gradient = dx<[](Output x, Output, Output dy) { return dy / square(1 + abs(x)); }>,
             .kernels = unary_kernels<Softsign, float, double>()}),
      // y = x * tanh(softplus(x)) (Misra 2020); 0 at -infinity. With t = tanh(softplus(x)), the
      // slope
      // is t + x * sigmoid(x) * (1 - t^2).
      unary({.name = "Mish",
             .gradient = dx<[](Output x, Output, Output dy) {
               const Output t = tanh(softplus(x));
               return dy * (t + silu(x) * (1 - square(t)));
             }>,
             .kernels = math_kernels<mish_of>()}),
  };
}

Output relu(Output x, Origin at) { return node_of("Relu", {x}, at); }
Output relu6(Output x, Origin at) { return node_of("Relu6", {x}, at); }
Output leaky_relu(Output x, double alpha, Origin at) {
  return add_node({.op = "LeakyRelu", .inputs = {x}, .attrs = {{"alpha", alpha}}}, at);
}
Output elu(Output x, double alpha, Origin at) {
  return add_node({.op = "Elu", .inputs = {x}, .attrs = {{"alpha", alpha}}}, at);
}
Output selu(Output x, Origin at) { return node_of("Selu", {x}, at); }
Output sigmoid(Output x, Origin at) { return node_of("Sigmoid", {x}, at); }
Output hard_sigmoid(Output x, Origin at) { return node_of("HardSigmoid", {x}, at); }
Output gelu(Output x, bool approximate, Origin at) {
  return add_node({.op = "Gelu", .inputs = {x}, .attrs = {{"approximate", approximate}}}, at);
}
Output silu(Output x, Origin at) { return node_of("Silu", {x}, at); }
Output softplus(Output x, Origin at) { return node_of("Softplus", {x}, at); }
Output softsign(Output x, Origin at) { return node_of("Softsign", {x}, at); }
Output mish(Output x, Origin at) { return node_of("Mish", {x}, at); }

}  // namespace troupe

// Minima, maxima and bounds.
#include <array>
#include <cmath>
#include <limits>

#include "ops/elementwise/number.hpp"
#include "ops/elementwise/rows.hpp"

namespace troupe {
namespace {

// No branch, so that loops are vectorised.
struct Fmax {
  template <class T>
  static T apply(T a, T b) {
    return ((a >= b) | (b != b)) ? a : b;
  }
};

struct Fmin {
  template <class T>
  static T apply(T a, T b) {
    return ((a <= b) | (b != b)) ? a : b;
  }
};

// db = dc where b is chosen, else 0;  da = dc - db.
Pair gradient_of_choice(Output a, Output b, Output dc, Output b_chosen) {
  const Output zero = constant_like(0, dc);
  return {undo_broadcast(where(b_chosen, zero, dc), a),
          undo_broadcast(where(b_chosen, dc, zero), b)};
}

template <class F>
std::vector<Kernel> kernels() {
  return with_i8(binary_kernels<F, float, double, int32_t, int64_t, uint8_t>());
}

struct Clip {
  // An infinite bound of integers: the least or the greatest of them.
  template <class T>
  static T bound(double bound) {
    if (std::is_floating_point_v<T> || std::isfinite(bound)) return static_cast<T>(bound);
    return bound < 0 ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
  }
  template <class T>
  static std::array<T, 2> arguments(const Node& node) {
    return {bound<T>(node.attr<double>("low")), bound<T>(node.attr<double>("high"))};
  }
  template <class T>
  static T apply(T x, T low, T high) {
    const T raised = x < low ? low : x;
    return raised > high ? high : raised;
  }
};

std::vector<Shape> infer_clip(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  const double low = ctx.attr<double>("low"), high = ctx.attr<double>("high");
  if (!(low <= high))
    throw ctx.error("wants low <= high, got ", low, " and ", high, "; swap them, or name a number");
  for (const double bound : {low, high})
    if (std::isfinite(bound) && !fits(bound, ctx.dtype(0)))
      throw ctx.error("the bound ", bound, " is no ", ctx.dtype(0),
                      " value; cast x to f32, or write a bound that fits");
  return {ctx.input(0)};
}

}  // namespace

std::vector<Op> minimum_and_maximum_ops() {
  return {
      // c = max(a, b), NaN if either is NaN. Equals give a.
      binary({.name = "Maximum",
              .gradient = da_db<[](Output a, Output b, Output, Output dc) {
                return gradient_of_choice(a, b, dc, greater(b, a));
              }>,
              .kernels = kernels<Maximum>()}),
      // c = min(a, b), NaN if either is NaN. Equals give a.
      binary({.name = "Minimum",
              .gradient = da_db<[](Output a, Output b, Output, Output dc) {
                return gradient_of_choice(a, b, dc, less(b, a));
              }>,
              .kernels = kernels<Minimum>()}),
      // c = max(a, b); of a number and NaN, the number. Equals and two NaNs give a.
      binary({.name = "Fmax",
              .gradient = da_db<[](Output a, Output b, Output, Output dc) {
                const Output b_chosen = logical_and(logical_not(greater_equal(a, b)), equal(b, b));
                return gradient_of_choice(a, b, dc, b_chosen);
              }>,
              .kernels = kernels<Fmax>()}),
      // c = min(a, b); of a number and NaN, the number. Equals and two NaNs give a.
      binary({.name = "Fmin",
              .gradient = da_db<[](Output a, Output b, Output, Output dc) {
                const Output b_chosen = logical_and(logical_not(less_equal(a, b)), equal(b, b));
                return gradient_of_choice(a, b, dc, b_chosen);
              }>,
              .kernels = kernels<Fmin>()}),
      // y = x moved to the nearest number in [low, high]; NaN stays NaN. The bounds are of x's
      // dtype,
      // or infinite where there is none. Bounds that are tensors: minimum(maximum(x, low), high).
      // The slope is 1 in [low, high], else 0.
      unary({.name = "Clip",
             .attrs = {{"low", AttrKind::real}, {"high", AttrKind::real}},
             .infer_shapes = infer_clip,
             .gradient = dx<[](Output x, Output y, Output dy) {
               return where(equal(x, y), dy, constant_like(0, dy));
             }>,
             .kernels = with_i8(unary_kernels<Clip, float, double, int32_t, int64_t, uint8_t>())}),
  };
}

Output maximum(Operand a, Operand b, Origin at) { return node_of("Maximum", a, b, at); }
Output minimum(Operand a, Operand b, Origin at) { return node_of("Minimum", a, b, at); }
Output fmax(Operand a, Operand b, Origin at) { return node_of("Fmax", a, b, at); }
Output fmin(Operand a, Operand b, Origin at) { return node_of("Fmin", a, b, at); }
Output clip(Output x, double low, double high, Origin at) {
  return add_node({.op = "Clip", .inputs = {x}, .attrs = {{"low", low}, {"high", high}}}, at);
}

}  // namespace troupe

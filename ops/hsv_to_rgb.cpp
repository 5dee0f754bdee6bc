// HsvToRgb: red, green and blue of hue, saturation and value (Smith, Color gamut transform pairs,
// SIGGRAPH 1978). Whole turns of the hue change nothing.
//   x, y: [..., 3], f32 or f64
#include "ops/colours.hpp"

namespace troupe {
namespace {

struct ToRgb {
  // Of a colour with the value 1 and the saturation 1, n sixths of a turn before it: 1 between one
  // and three sixths, falling to 0 on either side.
  template <class T>
  static T part(T n, T sixths) {
    const T k = n + sixths - (n + sixths >= T{6} ? T{6} : T{0});
    return std::clamp(std::min(k, T{4} - k), T{0}, T{1});
  }
  template <class T>
  static void apply(T hue, T saturation, T value, T& red, T& green, T& blue) {
    const T sixths = (hue - std::floor(hue)) * T{6}, most = value * saturation;
    red = value - most * part(T{5}, sixths);
    green = value - most * part(T{3}, sixths);
    blue = value - most * part(T{1}, sixths);
  }
};

}  // namespace

Op hsv_to_rgb_op() { return pixel_op<ToRgb>("HsvToRgb"); }

Output hsv_to_rgb(Output x, Origin at) { return add_node({.op = "HsvToRgb", .inputs = {x}}, at); }

}  // namespace troupe

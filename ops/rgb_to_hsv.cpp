// RgbToHsv: hue in [0, 1), saturation and value of red, green and blue (Smith, Color gamut
// transform pairs, SIGGRAPH 1978). The hue of grey and the saturation of black are 0.
//   x, y: [..., 3], f32 or f64
#include "ops/colours.hpp"

namespace troupe {
namespace {

struct ToHsv {
  template <class T>
  static void apply(T red, T green, T blue, T& hue, T& saturation, T& value) {
    const T most = std::max(red, std::max(green, blue));
    const T range = most - std::min(red, std::min(green, blue));
    const T divisor = range > T{0} ? range : T{1};
    const T turn = most == red     ? (green - blue) / divisor
                   : most == green ? T{2} + (blue - red) / divisor
                                   : T{4} + (red - green) / divisor;
    const T sixth = turn < T{0} ? turn + T{6} : turn;
    hue = range > T{0} ? sixth / T{6} : T{0};
    saturation = most > T{0} ? range / most : T{0};
    value = most;
  }
};

}  // namespace

Op rgb_to_hsv_op() { return pixel_op<ToHsv>("RgbToHsv"); }

Output rgb_to_hsv(Output x, Origin at) { return add_node({.op = "RgbToHsv", .inputs = {x}}, at); }

}  // namespace troupe

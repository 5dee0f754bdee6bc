// RandomNormal: y = mean + stddev * z, z standard normal.
//
// z is drawn by the ratio of two uniform numbers (Kinderman and Monahan, ACM TOMS 3, 1977): with u
// in (0, 1] and v in [-1/2, 1/2), z = sqrt(8 / e) * v / u is accepted if z^2 <= -4 * log(u). The
// bits of z are plain arithmetic; the mathematics library only affects the decision. In a block,
// words 0 (low) and 1 (high) give 1 - u; words 2 and 3 give v + 1/2.
#include "ops/random/normals.hpp"

namespace troupe {
namespace {

// 73 % of attempts succeed: all fail with probability 10^-145.
struct Draw {
  static constexpr double kFarthest = 12.13;  // sqrt(-4 * log(2^-53))
  static std::optional<double> attempt(const std::array<uint32_t, 4>& words) {
    constexpr double kScale = 1.7155277699214135;  // sqrt(8 / e)
    const double u = 1 - unit_double(words[0], words[1]);
    const double z = kScale * (unit_double(words[2], words[3]) - 0.5) / u;
    return z * z <= -4 * std::log(u) ? std::optional(z) : std::nullopt;
  }
};

}  // namespace

Op random_normal_op() { return normal_op<Draw>("RandomNormal"); }

Output random_normal(Graph& graph, Shape shape, double mean, double stddev, int64_t seed,
                     DType dtype, std::string_view name, Origin at) {
  return add_drawing(
      graph,
      {.op = "RandomNormal",
       .attrs =
           {{"shape", shape}, {"mean", mean}, {"stddev", stddev}, {"seed", seed}, {"dtype", dtype}},
       .name = name},
      at);
}

}  // namespace troupe

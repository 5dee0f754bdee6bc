// TruncatedNormal: y = mean + stddev * z, where z is normal and redrawn beyond two standard
// deviations.
//
// z is drawn by rejection (von Neumann 1951): z uniform in [-2, 2) is accepted with probability
// exp(-z^2 / 2), which gives exactly that distribution. The bits of z are plain arithmetic; the
// mathematics library only affects the decision. In a block, words 0 (low) and 1 (high) give u,
// with z = 4 * u - 2; words 2 and 3 give v, and z is accepted if v < exp(-z * z / 2).
#include "ops/random/normals.hpp"

namespace troupe {
namespace {

// 60 % of attempts succeed: all fail with probability 10^-101.
struct Draw {
  static constexpr double kFarthest = 2;
  static double proposed(uint32_t low, uint32_t high) { return 4 * unit_double(low, high) - 2; }
  static std::optional<double> attempt(const std::array<uint32_t, 4>& words) {
    const double z = proposed(words[0], words[1]);
    return unit_double(words[2], words[3]) < std::exp(-z * z / 2) ? std::optional(z) : std::nullopt;
  }
  // v minus exp(-z * z / 2) by its Taylor polynomial of degree 13 around 1, for an argument in [0,
  // 2]. The error is below 1 / 14!, which is 1.2e-11.
  static constexpr double kUnsure = 1e-9;
  static double gap(double z, uint32_t low, uint32_t high) {
    const double x = 1 - z * z / 2;
    const auto next = [x](double inverse, double sum) { return 1 + x * inverse * sum; };
    double sum = next(1.0 / 12, next(1.0 / 13, 1));
    sum = next(1.0 / 9, next(1.0 / 10, next(1.0 / 11, sum)));
    sum = next(1.0 / 6, next(1.0 / 7, next(1.0 / 8, sum)));
    sum = next(1.0 / 3, next(1.0 / 4, next(1.0 / 5, sum)));
    sum = next(1.0, next(1.0 / 2, sum));
    return unit_double(low, high) - sum * 0.36787944117144233;  // 1 / e
  }
};

}  // namespace

Op truncated_normal_op() { return normal_op<Draw>("TruncatedNormal"); }

Output truncated_normal(Graph& graph, Shape shape, double mean, double stddev, int64_t seed,
                        DType dtype, std::string_view name, Origin at) {
  return add_drawing(
      graph,
      {.op = "TruncatedNormal",
       .attrs =
           {{"shape", shape}, {"mean", mean}, {"stddev", stddev}, {"seed", seed}, {"dtype", dtype}},
       .name = name},
      at);
}

}  // namespace troupe

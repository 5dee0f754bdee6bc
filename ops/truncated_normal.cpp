// TruncatedNormal: y = mean + stddev * z, where z is normal and drawn again beyond two standard
// deviations.
//
// z comes by rejection (von Neumann 1951): z uniform in [-2, 2) is accepted with probability
// exp(-z^2 / 2), which gives just that distribution. The bits of z are plain arithmetic; a
// mathematics library only takes part in the decision. Of a block words 0 (low) and 1 (high) give
// u, z = 4 * u - 2; words 2 and 3 give v, and z is accepted if v < exp(-z * z / 2).
#include "ops/normals.hpp"

namespace troupe {
namespace {

// 60 % of all attempts succeed: missing all has a chance of 10^-101.
struct Draw {
  static constexpr double kFarthest = 2;
  static std::optional<double> attempt(const std::array<uint32_t, 4>& words) {
    const double z = 4 * unit_double(words[0], words[1]) - 2;
    return unit_double(words[2], words[3]) < std::exp(-z * z / 2) ? std::optional(z) : std::nullopt;
  }
};

}  // namespace

Op truncated_normal_op() { return normal_op<Draw>("TruncatedNormal"); }

Output truncated_normal(Graph& graph, Shape shape, double mean, double stddev, int64_t seed,
                        DType dtype, std::string_view name, Origin at) {
  return graph.add(
      {.op = "TruncatedNormal",
       .attrs =
           {{"shape", shape}, {"mean", mean}, {"stddev", stddev}, {"seed", seed}, {"dtype", dtype}},
       .name = name},
      at);
}

}  // namespace troupe

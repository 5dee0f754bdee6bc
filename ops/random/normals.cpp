// RandomNormal and TruncatedNormal: y = mean + stddev * z, where z is drawn by rejection, with the
// same result on every machine.
//
// Draw is a struct with a bound of |z|, kFarthest, and with
//   static std::optional<double> attempt(const std::array<uint32_t, 4>& words);
// which returns z, or nothing if these bits are rejected. Attempt a of element i uses block i + a *
// 2^40 (graph/base/philox.hpp defines blocks). All computations are in f64.
//
// A Draw that also has
//   static double proposed(low, high);         z from words 0 and 1, accepted or not
//   static double gap(double z, low, high);    below 0 if words 2 and 3 accept it, up to kUnsure
// draws many elements at a time; attempt() decides only if |gap| is below kUnsure. The numbers are
// those of attempt(), bit for bit.
//
// RandomNormal: z is standard normal. It is drawn by the ratio of two uniform numbers (Kinderman
// and Monahan, ACM TOMS 3, 1977): with u in (0, 1] and v in [-1/2, 1/2), z = sqrt(8 / e) * v / u is
// accepted if z^2 <= -4 * log(u). The bits of z are plain arithmetic; the mathematics library only
// affects the decision. In a block, words 0 (low) and 1 (high) give 1 - u; words 2 and 3 give v +
// 1/2.
//
// TruncatedNormal: z is normal and redrawn beyond two standard deviations. It is drawn by rejection
// (von Neumann 1951): z uniform in [-2, 2) is accepted with probability exp(-z^2 / 2), which gives
// exactly that distribution. The bits of z are plain arithmetic; the mathematics library only
// affects the decision. In a block, words 0 (low) and 1 (high) give u, with z = 4 * u - 2; words 2
// and 3 give v, and z is accepted if v < exp(-z * z / 2).
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "devices/threads/isa.hpp"
#include "ops/random/random.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

constexpr int kAttemptShift = 40;  // limits a tensor to 2^40 elements
constexpr uint64_t kAttemptsMax = 255;

template <class Draw>
std::vector<Shape> infer_normal(const InferContext& ctx) {
  const Shape& shape = drawn_shape(ctx);
  if (shape.size() > int64_t{1} << kAttemptShift)
    throw ctx.error("draws at most 2^40 numbers, got ", shape);
  const double mean = ctx.attr<double>("mean"), stddev = ctx.attr<double>("stddev");
  const double farthest = std::abs(mean) + Draw::kFarthest * stddev;
  const DType dtype = ctx.attr<DType>("dtype");
  if (!(stddev >= 0) || !(dtype == DType::f32 ? std::isfinite(static_cast<float>(farthest))
                                              : std::isfinite(farthest)))
    throw ctx.error("wants a mean and a stddev of at least 0 whose numbers, up to ", farthest,
                    ", are finite as ", dtype, ", got ", mean, " and ", stddev);
  return {shape};
}

// Returns 0 if no attempt is accepted.
template <class Draw>
double draw_normal(const RandomStream& random, uint64_t i) {
  for (uint64_t attempt = 0; attempt < kAttemptsMax; ++attempt)
    if (const auto z = Draw::attempt(random.block(i + (attempt << kAttemptShift)))) return *z;
  return 0;
}

template <class Draw>
concept DrawsMany = requires(double z, uint32_t word) {
  Draw::gap(z, word, word);
};

// z and gap of the attempts with the given blocks.
template <class Draw>
struct ProposeLoop {
  static void run(const RandomStream* random, const uint64_t* blocks, int64_t n, double* z,
                  double* gap) {
    const RandomStream stream = *random;
    TROUPE_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) {
      const std::array<uint32_t, 4> words = stream.block(blocks[i]);
      z[i] = Draw::proposed(words[0], words[1]);
      gap[i] = Draw::gap(z[i], words[2], words[3]);
    }
  }
};

// Draws z of elements [first, first + n), with n at most kDrawn. The elements that an attempt
// rejects are gathered for the next attempt.
constexpr int64_t kDrawn = 512;
template <class Draw, class Write>
void draw_many(const RandomStream& random, int64_t first, int64_t n, const Write& write) {
  uint64_t blocks[kDrawn];
  double z[kDrawn], gap[kDrawn];
  for (int64_t i = 0; i < n; ++i) blocks[i] = static_cast<uint64_t>(first + i);
  constexpr uint64_t kElement = (uint64_t{1} << kAttemptShift) - 1;
  for (uint64_t attempt = 0; n > 0; ++attempt) {
    in_isa<ProposeLoop<Draw>>(&random, static_cast<const uint64_t*>(blocks), n,
                              static_cast<double*>(z), static_cast<double*>(gap));
    int64_t left = 0;
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t block = blocks[i];
      bool accepted = gap[i] < 0;
      if (std::abs(gap[i]) < Draw::kUnsure) [[unlikely]]
        accepted = Draw::attempt(random.block(block)).has_value();
      const bool last = attempt + 1 == kAttemptsMax;
      if (accepted || last) write(static_cast<int64_t>(block & kElement), accepted ? z[i] : 0);
      blocks[left] = block + (uint64_t{1} << kAttemptShift);
      left += accepted || last ? 0 : 1;
    }
    n = left;
  }
}

template <class Draw, class T>
void run_normal(KernelContext& ctx) {
  const RandomStream random = random_stream(ctx);
  const double mean = ctx.attr<double>("mean"), stddev = ctx.attr<double>("stddev");
  Tensor& output = ctx.output();
  T* y = output.mutable_data<T>();
  const int64_t n = output.size();
  const auto write = [=](int64_t i, double z) { y[i] = static_cast<T>(mean + stddev * z); };
  constexpr int64_t kJob = 8 * kDrawn;
  ctx.parallel((n + kJob - 1) / kJob, [&](int64_t job) {
    const int64_t end = std::min(n, (job + 1) * kJob);
    for (int64_t i = job * kJob; i < end; i += kDrawn) {
      const int64_t count = std::min(kDrawn, end - i);
      if constexpr (DrawsMany<Draw>)
        draw_many<Draw>(random, i, count, write);
      else
        for (int64_t k = i; k < i + count; ++k)
          write(k, draw_normal<Draw>(random, static_cast<uint64_t>(k)));
    }
  });
}

template <class Draw>
Op normal_op(std::string name) {
  return drawing_op(std::move(name),
                    {{"mean", AttrKind::real, 0.0}, {"stddev", AttrKind::real, 1.0}},
                    infer_normal<Draw>, {DeviceKind::cpu, DType::f32, run_normal<Draw, float>},
                    {DeviceKind::cpu, DType::f64, run_normal<Draw, double>});
}

// All attempts fail with probability 10^-145.
struct NormalDraw {
  static constexpr double kFarthest = 12.13;  // sqrt(-4 * log(2^-53))
  static std::optional<double> attempt(const std::array<uint32_t, 4>& words) {
    return normal_attempt(words);
  }
};

// 60 % of attempts succeed: all fail with probability 10^-101.
struct TruncatedDraw {
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

Output add_normal(const char* op, Graph& graph, const Shape& shape, double mean, double stddev,
                  int64_t seed, DType dtype, std::string_view name, Origin at) {
  return add_drawing(
      graph,
      {.op = op,
       .attrs =
           {{"shape", shape}, {"mean", mean}, {"stddev", stddev}, {"seed", seed}, {"dtype", dtype}},
       .name = name},
      at);
}

}  // namespace

Op random_normal_op() { return normal_op<NormalDraw>("RandomNormal"); }

Output random_normal(Graph& graph, Shape shape, double mean, double stddev, int64_t seed,
                     DType dtype, std::string_view name, Origin at) {
  return add_normal("RandomNormal", graph, shape, mean, stddev, seed, dtype, name, at);
}

Op truncated_normal_op() { return normal_op<TruncatedDraw>("TruncatedNormal"); }

Output truncated_normal(Graph& graph, Shape shape, double mean, double stddev, int64_t seed,
                        DType dtype, std::string_view name, Origin at) {
  return add_normal("TruncatedNormal", graph, shape, mean, stddev, seed, dtype, name, at);
}

}  // namespace troupe

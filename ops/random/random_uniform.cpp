// RandomUniform: y = low + u * (high - low) with u uniform in [0, 1); y is in [low, high).
//
// Bits (graph/base/philox.hpp defines blocks): u of element i is, for f32, the 24 upper bits of
// word i % 4 of block i / 4; for f64, the 53 upper bits of words 2 * (i % 2) (low) and 2 * (i % 2)
// + 1 (high) of block i / 2. A y that rounding brings up to `high` becomes the largest number below
// it.
//
// RandomInt: y = uniform integers in [low, high).
//
// Element i is low + the upper half of bits * (high - low), with number i of the stream
// (RandomNumbers of ops/random/random.hpp).
#include <cmath>
#include <limits>

#include "ops/random/random.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

// True if T can draw from the range: both ends and their difference are finite, and they differ as
// T.
template <class T>
bool is_range(double low, double high) {
  const T from = static_cast<T>(low), to = static_cast<T>(high);
  return std::isfinite(from) && from < to && std::isfinite(to - from);
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const Shape& shape = drawn_shape(ctx);
  const double low = ctx.attr<double>("low"), high = ctx.attr<double>("high");
  const DType dtype = ctx.attr<DType>("dtype");
  if (!(dtype == DType::f32 ? is_range<float>(low, high) : is_range<double>(low, high)))
    throw ctx.error("wants finite numbers low < high, which differ as ", dtype,
                    " and whose distance is one, got ", low, " and ", high);
  return {shape};
}

inline float unit(const uint32_t* words, int64_t i, float) { return unit_float(words[i]); }
inline double unit(const uint32_t* words, int64_t i, double) {
  return unit_double(words[2 * i], words[2 * i + 1]);
}

// Elements from that of word 0 of `block` on. `last`: the largest number below `high`.
struct UniformLoop {
  template <class T>
  static void run(const RandomStream* stream, uint64_t block, T low, T high, T last, T* y,
                  int64_t n) {
    constexpr int kWords = 4 * RandomStream::kBlocks;
    constexpr int64_t kAtOnce = kWords / (sizeof(T) / 4);
    uint32_t words[kWords];
    const T range = high - low;
    for (; n > 0; n -= kAtOnce, y += kAtOnce, block += RandomStream::kBlocks) {
      stream->blocks(block, words);
      const int64_t count = std::min(n, kAtOnce);
      TROUPE_INDEPENDENT
      for (int64_t i = 0; i < count; ++i) {
        const T number = low + unit(words, i, T{}) * range;
        y[i] = number < high ? number : last;
      }
    }
  }
};

template <class T>
void cpu(KernelContext& ctx) {
  const RandomStream random = random_stream(ctx);
  const T low = static_cast<T>(ctx.attr<double>("low")),
          high = static_cast<T>(ctx.attr<double>("high"));
  T* y = ctx.output().mutable_data<T>();
  const int64_t n = ctx.output().size();
  constexpr int64_t kJob = 1 << 16, kInBlock = 16 / sizeof(T);
  ctx.parallel((n + kJob - 1) / kJob, [&](int64_t job) {
    const int64_t first = job * kJob;
    in_isa<UniformLoop>(&random, static_cast<uint64_t>(first / kInBlock), low, high,
                        std::nextafter(high, low), y + first, std::min(kJob, n - first));
  });
}

template <class T>
bool is_integer_range(int64_t low, int64_t high) {
  return low < high && low >= int64_t{std::numeric_limits<T>::min()} &&
         high - 1 <= int64_t{std::numeric_limits<T>::max()};
}

std::vector<Shape> infer_integers(const InferContext& ctx) {
  const Shape& shape = drawn_shape(ctx);
  const int64_t low = ctx.attr<int64_t>("low"), high = ctx.attr<int64_t>("high");
  const DType dtype = ctx.attr<DType>("dtype");
  if (!(dtype == DType::i32 ? is_integer_range<int32_t>(low, high)
                            : is_integer_range<int64_t>(low, high)))
    throw ctx.error("wants low < high whose numbers from low to high - 1 are ", dtype, ", got ",
                    low, " and ", high);
  return {shape};
}

template <class T>
void draw_integers(KernelContext& ctx) {
  RandomNumbers random(random_stream(ctx), ctx.output().size());
  const uint64_t low = static_cast<uint64_t>(ctx.attr<int64_t>("low"));
  const uint64_t range = static_cast<uint64_t>(ctx.attr<int64_t>("high")) - low;
  Tensor& output = ctx.output();
  T* y = output.mutable_data<T>();
  const int64_t n = output.size();
  for (int64_t i = 0; i < n; ++i)
    y[i] = static_cast<T>(low + random.below(static_cast<uint64_t>(i), range));
}

}  // namespace

Op random_uniform_op() {
  return drawing_op("RandomUniform", {{"low", AttrKind::real, 0.0}, {"high", AttrKind::real, 1.0}},
                    infer_shapes, {DeviceKind::cpu, DType::f32, cpu<float>},
                    {DeviceKind::cpu, DType::f64, cpu<double>});
}

Output random_uniform(Graph& graph, Shape shape, double low, double high, int64_t seed, DType dtype,
                      std::string_view name, Origin at) {
  return add_drawing(
      graph,
      {.op = "RandomUniform",
       .attrs = {{"shape", shape}, {"low", low}, {"high", high}, {"seed", seed}, {"dtype", dtype}},
       .name = name},
      at);
}

Op random_int_op() {
  return drawing_op("RandomInt", {{"low", AttrKind::integer}, {"high", AttrKind::integer}},
                    infer_integers, {DeviceKind::cpu, DType::i64, draw_integers<int64_t>},
                    {DeviceKind::cpu, DType::i32, draw_integers<int32_t>});
}

Output random_int(Graph& graph, Shape shape, int64_t low, int64_t high, int64_t seed, DType dtype,
                  std::string_view name, Origin at) {
  return add_drawing(
      graph,
      {.op = "RandomInt",
       .attrs = {{"shape", shape}, {"low", low}, {"high", high}, {"seed", seed}, {"dtype", dtype}},
       .name = name},
      at);
}

}  // namespace troupe

// compress: the codecs of gradients: bytes, the time to encode and to decode them on one thread,
// and the bandwidth below which a push is faster with the codec.
//
// A push of S bytes takes S / B at a bandwidth of B. With codes of C bytes it takes
// E + C / B + D, where E and D are the times to encode and to decode them. It is faster below
// B = (S - C) / (E + D).
#include <cmath>

#include "bench/bench.hpp"
#include "training/codecs/residuals.hpp"
#include "troupe/error.hpp"

namespace troupe::bench {
namespace {

// Normal numbers, as gradients have about them.
Tensor gradient_of(int64_t n) {
  Tensor out = Tensor::empty(DType::f32, Shape{n});
  float* const to = out.mutable_data<float>();
  uint64_t state = 1;
  const auto uniform = [&state] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state >> 11) * 0x1p-53;
  };
  for (int64_t i = 0; i < n; ++i)
    to[i] = static_cast<float>(1e-3 * std::sqrt(-2 * std::log(1 - uniform())) *
                               std::cos(6.283185307179586 * uniform()));
  return out;
}

// Memory that a process would take from its pool.
class Reused {
 public:
  Tensor make(DType dtype, const Shape& shape) {
    for (Tensor& tensor : kept_)
      if (tensor.unique() && tensor.dtype() == dtype && tensor.shape() == shape) return tensor;
    return kept_.emplace_back(Tensor::empty(dtype, shape));
  }

 private:
  std::vector<Tensor> kept_;
};

struct Cost {
  int64_t bytes = 0;
  double encode = 0, decode = 0;  // seconds, the medians
};

Cost cost_of(const Codec& codec, const Tensor& gradient, int64_t rounds) {
  Reused memory;
  const MakeTensor make = [&memory](DType d, const Shape& s) { return memory.make(d, s); };
  Residuals residuals;
  const FlushPlan plan{.steps = rounds + 2};
  std::vector<double> encodes, decodes;
  Cost out;
  for (int64_t step = 0; step <= rounds; ++step) {
    const GradientKey key{1, "w", 0, step};
    auto begin = std::chrono::steady_clock::now();
    const Tensor codes = has_residual(codec.kind)
                             ? residuals.code(1, codec, gradient, key, plan, make).gradient
                             : encode(codec, gradient, key, make);
    const double encoded = seconds_since(begin);
    Tensor back = make(DType::f32, gradient.shape());
    begin = std::chrono::steady_clock::now();
    decode(codec.kind, codes, 0, back.size(), back);
    const double decoded = seconds_since(begin);
    out.bytes = codes.byte_size();
    if (step == 0) continue;  // pages are new
    encodes.push_back(encoded);
    decodes.push_back(decoded);
  }
  out.encode = quantile(encodes, 0.5);
  out.decode = quantile(decodes, 0.5);
  return out;
}

}  // namespace

int compress(const Options& options) {
  const int64_t mib = options.integer("mib", 0);
  if (mib < 0 || mib > 1024)
    throw Error(Errc::invalid_argument, "--mib wants 1 to 1024, got ", mib);
  for (const int64_t size : mib > 0 ? std::vector<int64_t>{mib} : std::vector<int64_t>{1, 16}) {
    const Tensor gradient = gradient_of((size << 20) / 4);
    const auto bytes = static_cast<double>(gradient.byte_size());
    for (const char* const name :
         {"bf16", "f16", "int8", "sign", "topk:0.1", "topk:0.01", "topk:0.001"}) {
      const Cost cost = cost_of(codec_from_string(name), gradient, std::max<int64_t>(7, 64 / size));
      const double saved = bytes - static_cast<double>(cost.bytes);
      const std::vector<std::pair<std::string, std::string>> config = {
          {"codec", std::string("\"") + name + "\""}, {"mib", std::to_string(size)}};
      const auto say = [&](const char* metric, double value, const char* unit) {
        report(options, "compress", metric, value, unit, config);
      };
      say("bytes", static_cast<double>(cost.bytes), "B");
      say("encode_gb_per_s", bytes / cost.encode / 1e9, "GB/s");
      say("decode_gb_per_s", bytes / cost.decode / 1e9, "GB/s");
      say("pays_below_gb_per_s", saved / (cost.encode + cost.decode) / 1e9, "GB/s");
    }
  }
  return 0;
}

}  // namespace troupe::bench

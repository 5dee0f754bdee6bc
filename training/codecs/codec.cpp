// The codecs by number, each as loops over blocks.
#include "training/codecs/codec.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "devices/threads/isa.hpp"
#include "graph/base/philox.hpp"
#include "training/codecs/sparse_codes.hpp"

namespace troupe {
namespace {

constexpr const char* kNames[kCodecKinds] = {"none", "bf16", "f16", "int8", "topk", "sign"};

// Magnitudes below this have no scale whose inverse is finite.
constexpr double kInt8Least = 0x1p-100;
// The numbers of one call of RandomStream::blocks() are for two blocks: 16 bits each.
constexpr int64_t kInt8Chunk = 2 * kInt8Block;
static_assert(RandomStream::kBlocks * 4 == kInt8Block);

constexpr uint32_t kInfinity = 0x7f800000u;

// The number, or the largest one of `Half` if it is finite and larger. Integers, so that the
// compiler makes vectors of it.
template <class Half>
float saturated(float number) {
  constexpr uint32_t kLargest = std::is_same_v<Half, Float16> ? 0x477fe000u : 0x7f7f0000u;
  const auto bits = std::bit_cast<uint32_t>(number);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const bool beyond = magnitude > kLargest && magnitude < kInfinity;
  return std::bit_cast<float>((beyond ? kLargest : magnitude) | (bits & 0x80000000u));
}

template <class Half>
struct NarrowLoop {
  template <class T>
  static void run(const T* from, Half* to, int64_t n) {
    TROUPE_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) to[i] = Half(saturated<Half>(detail::to_odd_float(from[i])));
  }
};

template <class Half>
struct WidenLoop {
  template <class T>
  static void run(const Half* from, T* to, int64_t n) {
    TROUPE_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(static_cast<float>(from[i]));
  }
};

// 127 times it is finite, though it may have been rounded up.
float scale_of(float largest) {
  const float scale = largest / 127;
  const bool beyond = scale * 127 > std::numeric_limits<float>::max();
  return beyond ? std::bit_cast<float>(std::bit_cast<uint32_t>(scale) - 1) : scale;
}

template <class T>
T largest_of(const T* from, int64_t n) {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  Bits most = 0;  // the bits of magnitudes are in their order, and those of NaN are the largest
  for (int64_t i = 0; i < n; ++i) most = std::max(most, std::bit_cast<Bits>(from[i]) << 1);
  return std::bit_cast<T>(most >> 1);
}

// y + 128 is positive and has 16 bits behind the point: truncation is then floor(y + random).
template <int kShift, class T>
void round_block(const T* from, int64_t n, T inverse, const uint32_t* words, int8_t* codes) {
  TROUPE_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const float y = std::clamp(static_cast<float>(from[i] * inverse), -127.0f, 127.0f);
    const float random = static_cast<float>(static_cast<int32_t>(words[i] >> kShift & 0xffffu));
    codes[i] = static_cast<int8_t>(static_cast<int32_t>((y + 128.0f) + random * 0x1p-16f) - 128);
  }
}

// Codes at most kInt8Chunk elements, the chunk of that number. False: one has no scale.
struct Int8Loop {
  template <class T>
  static bool run(const RandomStream* random, int64_t chunk, const T* from, int64_t n,
                  float* scales, int8_t* codes) {
    uint32_t words[4 * RandomStream::kBlocks];
    random->blocks(static_cast<uint64_t>(chunk) * RandomStream::kBlocks, words);
    for (int64_t at = 0, half = 0; at < n; at += kInt8Block, ++half) {
      const int64_t some = std::min(kInt8Block, n - at);
      const T largest = largest_of(from + at, some);
      if (!(largest <= static_cast<T>(std::numeric_limits<float>::max()))) return false;
      const bool zeros = largest < static_cast<T>(kInt8Least);
      scales[half] = zeros ? 0.0f : scale_of(static_cast<float>(largest));
      const T inverse = zeros ? T{0} : 127 / largest;
      if (half == 0)
        round_block<0>(from + at, some, inverse, words, codes + at);
      else
        round_block<16>(from + at, some, inverse, words, codes + at);
    }
    return true;
  }
};

struct ScaleLoop {
  template <class T>
  static void run(const int8_t* codes, float scale, T* to, int64_t n) {
    TROUPE_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(static_cast<float>(codes[i]) * scale);
  }
};

template <class Half>
void narrow(const Tensor& from, Tensor& to) {
  if (from.dtype() == DType::f64)
    in_isa<NarrowLoop<Half>>(from.data<double>(), to.mutable_data<Half>(), from.size());
  else
    in_isa<NarrowLoop<Half>>(from.data<float>(), to.mutable_data<Half>(), from.size());
}

template <class Half>
void widen(const Tensor& from, Tensor& to) {
  if (to.dtype() == DType::f64)
    in_isa<WidenLoop<Half>>(from.data<Half>(), to.mutable_data<double>(), to.size());
  else
    in_isa<WidenLoop<Half>>(from.data<Half>(), to.mutable_data<float>(), to.size());
}

// int8: the scales of the blocks that elements [begin, end) are in, then a code for each element.
struct Int8Layout {
  int64_t begin, end;
  int64_t first() const { return begin / kInt8Block; }
  int64_t scales() const {
    return begin == end ? 0 : (end + kInt8Block - 1) / kInt8Block - first();
  }
  int64_t scale_bytes() const { return scales() * int64_t{sizeof(float)}; }
  int64_t bytes() const { return scale_bytes() + end - begin; }
};

template <class T>
bool encode_int8(const Tensor& gradient, const GradientKey& key, Tensor& codes) {
  const int64_t n = gradient.size();
  const Int8Layout layout{0, n};
  const RandomStream random(static_cast<int64_t>(key.seed),
                            detail::concat("push of ", key.parameter), key.step, key.replica);
  const T* from = gradient.data<T>();
  uint8_t* const out = codes.mutable_data<uint8_t>();
  float scales[2];
  for (int64_t at = 0; at < n; at += kInt8Chunk) {
    const int64_t some = std::min(kInt8Chunk, n - at);
    const bool coded = in_isa<Int8Loop>(&random, at / kInt8Chunk, from + at, some, &scales[0],
                                        reinterpret_cast<int8_t*>(out + layout.scale_bytes() + at));
    if (!coded) return false;
    const int64_t count = (some + kInt8Block - 1) / kInt8Block;
    std::memcpy(out + at / kInt8Block * int64_t{sizeof(float)}, &scales[0],
                static_cast<size_t>(count) * sizeof(float));
  }
  return true;
}

template <class T>
void decode_int8(const Tensor& codes, const Int8Layout& layout, T* to) {
  const uint8_t* const scales = codes.data<uint8_t>();
  const auto* const from = reinterpret_cast<const int8_t*>(scales + layout.scale_bytes());
  for (int64_t block = 0; block < layout.scales(); ++block) {
    float scale;
    std::memcpy(&scale, scales + block * int64_t{sizeof(float)}, sizeof scale);
    const int64_t at = std::max(layout.begin, (layout.first() + block) * kInt8Block);
    const int64_t end = std::min(layout.end, (layout.first() + block + 1) * kInt8Block);
    in_isa<ScaleLoop>(from + (at - layout.begin), scale, to + (at - layout.begin), end - at);
  }
}

DType half_of(Codec::Kind kind) { return kind == Codec::bf16 ? DType::bf16 : DType::f16; }

}  // namespace

std::string to_string(const Codec& codec) {
  return codec.kind == Codec::topk ? detail::concat("topk:", codec.fraction) : kNames[codec.kind];
}

Codec codec_from_string(std::string_view text) {
  for (int kind = 0; kind < kCodecKinds; ++kind)
    if (text == kNames[kind] && kind != Codec::topk) return {static_cast<Codec::Kind>(kind)};
  if (!text.starts_with("topk:"))
    throw Error(Errc::invalid_argument, "\"", text, "\" is no codec; the codecs are none, bf16, ",
                "f16, int8, sign and topk:F with a fraction F, as topk:0.01");
  const std::string_view number = text.substr(5);
  double fraction = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), fraction);
  if (error != std::errc{} || end != number.data() + number.size() || !(fraction > 0) ||
      fraction > 1)
    throw Error(Errc::invalid_argument, "the codec ", text,
                " wants a fraction above 0 and at most 1, as topk:0.01");
  return {Codec::topk, fraction};
}

Tensor encode_values(Codec::Kind kind, const Tensor& values, const MakeTensor& make) {
  Tensor out = make(half_of(kind), Shape{values.size()});
  if (kind == Codec::bf16)
    narrow<BFloat16>(values, out);
  else
    narrow<Float16>(values, out);
  return out;
}

Tensor encode(const Codec& codec, const Tensor& gradient, const GradientKey& key,
              const MakeTensor& make) {
  if (codes_values(codec.kind)) return encode_values(codec.kind, gradient, make);
  if (codec.kind == Codec::topk) return encode_topk(gradient, codec.fraction, make);
  if (codec.kind == Codec::sign) return encode_sign(gradient, make);
  Tensor out = make(DType::u8, Shape{Int8Layout{0, gradient.size()}.bytes()});
  const bool coded = gradient.dtype() == DType::f64 ? encode_int8<double>(gradient, key, out)
                                                    : encode_int8<float>(gradient, key, out);
  return coded ? out : Tensor{};
}

Tensor codes_of_slice(Codec::Kind kind, const Tensor& codes, int64_t size, int64_t begin,
                      int64_t end) {
  if (begin == 0 && end == size) return codes;
  if (codes_values(kind)) return codes.rows(begin, end);
  if (kind == Codec::topk) return topk_of_slice(codes, begin, end);
  if (kind == Codec::sign) return sign_of_slice(codes, size, begin, end);
  const Int8Layout all{0, size}, part{begin, end};
  Tensor out = Tensor::empty(DType::u8, Shape{part.bytes()});
  const uint8_t* const from = codes.data<uint8_t>();
  uint8_t* const to = out.mutable_data<uint8_t>();
  std::memcpy(to, from + part.first() * int64_t{sizeof(float)},
              static_cast<size_t>(part.scale_bytes()));
  std::memcpy(to + part.scale_bytes(), from + all.scale_bytes() + begin,
              static_cast<size_t>(end - begin));
  return out;
}

bool are_codes(Codec::Kind kind, const Tensor& codes, int64_t begin, int64_t end) {
  if (!codes.defined() || !codes.on_host() || codes.ndim() != 1) return false;
  if (codes_values(kind)) return codes.dtype() == half_of(kind) && codes.size() == end - begin;
  if (codes.dtype() != DType::u8) return false;
  if (kind == Codec::topk) return are_topk(codes, end - begin);
  if (kind == Codec::sign) return are_sign(codes, begin, end);
  return kind == Codec::int8 && codes.size() == Int8Layout{begin, end}.bytes();
}

void decode(Codec::Kind kind, const Tensor& codes, int64_t begin, int64_t end, Tensor& out) {
  if (kind == Codec::bf16) return widen<BFloat16>(codes, out);
  if (kind == Codec::f16) return widen<Float16>(codes, out);
  if (kind == Codec::topk) return decode_topk(codes, out);
  if (kind == Codec::sign) return decode_sign(codes, begin, end, out);
  const Int8Layout layout{begin, end};
  if (out.dtype() == DType::f64)
    decode_int8(codes, layout, out.mutable_data<double>());
  else
    decode_int8(codes, layout, out.mutable_data<float>());
}

}  // namespace troupe

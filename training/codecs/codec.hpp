// Codecs: forms in which a gradient, or the values of a parameter, travel in fewer bytes.
//
// A gradient is coded as a whole, and its codes are then cut by slices, so the same gradient has
// the same codes for any number of shards. Equal arguments give equal codes: a step that is done
// again sends them again.
//   bf16, f16  16-bit numbers, rounded to the nearest. A finite number beyond the range becomes the
//              largest one, 65504 for f16; NaN and infinities stay. For gradients and for values.
//   int8       blocks of kInt8Block elements with one f32 scale, the largest magnitude / 127, and
//              rounded up or down at random, so that the mean over steps is right (Alistarh et al.
//              2017). A block whose largest magnitude is below 2^-100 becomes zeros. For gradients.
//   topk:F     the fraction F of the elements, those of the largest magnitudes, of equal ones the
//              first; zeros never (Lin et al. 2018). For f32 gradients, with a residual.
//   sign       a bit for each element, and for each kSignBlock of them the mean magnitude (Seide et
//              al. 2014; Karimireddy et al. 2019). For f32 gradients, with a residual.
// A residual is the part of a replica's gradients that has not been pushed yet (residuals.hpp).
// Owner: none, plain functions over host tensors. Thread: any.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "troupe/tensor.hpp"

namespace troupe {

struct Codec {
  // The numbers are used on the wire: append new ones.
  enum Kind : uint8_t { none, bf16, f16, int8, topk, sign } kind = none;
  double fraction = 0;  // topk

  bool used() const { return kind != none; }
  friend bool operator==(const Codec&, const Codec&) = default;
};
inline constexpr int kCodecKinds = Codec::sign + 1;
inline constexpr int64_t kInt8Block = 256, kSignBlock = 256;

// "none", "bf16", "f16", "int8", "topk:0.01", "sign".
std::string to_string(const Codec& codec);
Codec codec_from_string(std::string_view text);  // Throws: Error(invalid_argument).
inline bool is_codec(int64_t number) { return number >= 0 && number < kCodecKinds; }
// True if values may travel so: each element by itself, whatever the slices are.
inline bool codes_values(Codec::Kind kind) { return kind == Codec::bf16 || kind == Codec::f16; }
// True if the elements that the codes leave out are pushed with a later gradient.
inline bool has_residual(Codec::Kind kind) { return kind == Codec::topk || kind == Codec::sign; }

// The gradient that is coded; it keys the random numbers.
struct GradientKey {
  uint64_t seed = 0;
  std::string_view parameter;
  int64_t replica = 0, step = 0;
};

using MakeTensor = std::function<Tensor(DType, const Shape&)>;

// The codes of the gradient of a whole parameter. Undefined if they could not say which element is
// not finite: such a gradient travels as it is. Requires: f32, or f64 for a codec without a
// residual; a codec other than none.
Tensor encode(const Codec& codec, const Tensor& gradient, const GradientKey& key,
              const MakeTensor& make);
// The codes of elements [begin, end), from those of a parameter of `size` elements.
Tensor codes_of_slice(Codec::Kind kind, const Tensor& codes, int64_t size, int64_t begin,
                      int64_t end);
// True if these can be the codes of elements [begin, end): they may come from another process.
bool are_codes(Codec::Kind kind, const Tensor& codes, int64_t begin, int64_t end);
// `out`: [end - begin], f32 or f64. Requires: are_codes().
void decode(Codec::Kind kind, const Tensor& codes, int64_t begin, int64_t end, Tensor& out);

// Values as they travel. Requires: codes_values().
Tensor encode_values(Codec::Kind kind, const Tensor& values, const MakeTensor& make);

}  // namespace troupe

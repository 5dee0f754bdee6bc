// Decodes pushes, and codes values.
#include "training/shards/travelling.hpp"

#include "devices/failure.hpp"

namespace troupe {

Gradient decoded(const Push& p, const Slice& slice, const ShardMemory& memory) {
  const auto kind = static_cast<Codec::Kind>(p.codec);
  const int64_t begin = slice.offset, end = begin + slice.size;
  const bool fits = has_residual(kind) ? slice.dtype == DType::f32 : is_wide_float(slice.dtype);
  if (p.write != 0 || slice.table || !is_codec(p.codec) || !fits ||
      !are_codes(kind, p.gradient.values, begin, end))
    return p.gradient;
  Tensor out;  // without room in the pool the gradient is on the heap, as new values are
  static_cast<void>(failure_of([&] { out = memory.make(slice.dtype, Shape{slice.size}); }));
  if (!out.defined()) out = Tensor::empty(slice.dtype, Shape{slice.size});
  decode(kind, p.gradient.values, begin, end, out);
  return out;
}

const Tensor& TravellingValues::get(const Tensor& values, int64_t version, uint8_t codec,
                                    const ShardMemory& memory) {
  if (version_ != version || codec_ != codec) {
    codes_ = encode_values(static_cast<Codec::Kind>(codec), values,
                           [&memory](DType d, const Shape& s) { return memory.make(d, s); });
    version_ = version;
    codec_ = codec;
  }
  return codes_;
}

}  // namespace troupe

// The codes of topk and sign, as bytes (codec.hpp).
//   topk  the count of elements, u32; their places from the slice's begin, u32 each, ascending; and
//         their values, f32 each
//   sign  the f32 scales of the blocks that elements [begin, end) are in, then the bytes that their
//         bits are in, of a parameter's element e bit e % 8 of byte e / 8; 1: negative
// Owner: none, plain functions over host tensors of f32. Thread: any.
#pragma once

#include "training/codecs/codec.hpp"

namespace troupe {

// Undefined: an element is not finite.
Tensor encode_topk(const Tensor& gradient, double fraction, const MakeTensor& make);
Tensor topk_of_slice(const Tensor& codes, int64_t begin, int64_t end);
bool are_topk(const Tensor& codes, int64_t size);
void decode_topk(const Tensor& codes, Tensor& out);

Tensor encode_sign(const Tensor& gradient, const MakeTensor& make);
Tensor sign_of_slice(const Tensor& codes, int64_t size, int64_t begin, int64_t end);
bool are_sign(const Tensor& codes, int64_t begin, int64_t end);
void decode_sign(const Tensor& codes, int64_t begin, int64_t end, Tensor& out);

}  // namespace troupe

// Gradients and values of a slice as they travel: the codes of a push become its gradient, and the
// values of a version become codes, once for all replicas that ask for them.
// Owner: HeldSlice. Thread: that of Shard's caller.
#pragma once

#include "training/codecs/codec.hpp"
#include "training/parameters/layout.hpp"
#include "training/parameters/messages.hpp"
#include "training/rules/pool_block.hpp"

namespace troupe {

// The gradient whose codes came; that of the push itself if they are none of this slice.
Gradient decoded(const Push& push, const Slice& slice, const ShardMemory& memory);

class TravellingValues {
 public:
  // Requires: a codec of values. `version`: of `values`.
  const Tensor& get(const Tensor& values, int64_t version, uint8_t codec,
                    const ShardMemory& memory);

 private:
  int64_t version_ = -1;
  uint8_t codec_ = Codec::none;
  Tensor codes_;
};

}  // namespace troupe

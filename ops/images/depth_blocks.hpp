// Shared by space_to_depth and depth_to_space: one image [b, h * s, w * s, c] viewed as [b, h, w, s
// * s * c], and the reverse. Channel (i * s + j) * c + k of a pixel is channel k at (i, j) of its
// block.
#pragma once

#include "ops/support/strided.hpp"
#include "troupe/op.hpp"

namespace troupe {

template <class Context>
int64_t checked_block(const Context& ctx, const Shape& x) {
  constexpr int64_t kBlockMax = 65536;  // its square is far from an overflow
  const int64_t block = ctx.template attr<int64_t>("block");
  if (block < 1 || block > kBlockMax)
    throw ctx.error("wants a block size from 1 to ", kBlockMax, ", got ", block);
  if (x.ndim() != 4) throw ctx.error("wants images [batch, height, width, channels], got ", x);
  return block;
}

// Both images viewed as [b, h, w, s, s, c].
struct DepthBlocks {
  Shape shape;
  Strides image = {}, depth = {};
  // `deep`: [b, h, w, s * s * c].
  DepthBlocks(const Shape& deep, int64_t s) : shape{deep[0], deep[1], deep[2], s, s, 1} {
    const int64_t h = deep[1], w = deep[2], c = deep[3] / (s * s);
    shape.set(5, c);
    depth = dense_strides(shape);
    image = {h * s * w * s * c, s * w * s * c, s * c, w * s * c, c, 1};
  }
};

}  // namespace troupe

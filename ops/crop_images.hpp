// What CropImages and its gradient share: where the parts are.
#pragma once

#include "ops/indices.hpp"
#include "troupe/ops/images.hpp"

namespace troupe {

// For infer_shapes. Throws: Error from ctx if x is not images, offsets are not [b, 2], or the part
// is larger than the images.
inline void check_crop(const InferContext& ctx, const Shape& x, const Shape& offsets,
                       int64_t height, int64_t width) {
  if (x.ndim() != 4) throw ctx.error("wants images [batch, height, width, channels], got ", x);
  if (offsets.ndim() != 2 || !may_equal(offsets[0], x[0]) || !may_equal(offsets[1], 2))
    throw ctx.error("wants offsets [batch, 2] for ", x, ", got ", offsets);
  if ((x[1] >= 0 && height > x[1]) || (x[2] >= 0 && width > x[2]))
    throw ctx.error("a part of ", height, " x ", width, " is larger than the images ", x);
}

// Calls f(image, row, column) for each image. Throws: Error from ctx for a part that is not whole
// in its image.
template <class F>
void for_each_part(const KernelContext& ctx, const Tensor& offsets, const Shape& x, int64_t height,
                   int64_t width, const F& f) {
  with_indices(offsets, [&](const auto* at) {
    for (int64_t b = 0; b < x[0]; ++b)
      if (at[2 * b] < 0 || at[2 * b] > x[1] - height || at[2 * b + 1] < 0 ||
          at[2 * b + 1] > x[2] - width)
        throw ctx.error("the part of ", height, " x ", width, " from row ", at[2 * b], ", column ",
                        at[2 * b + 1], " of image ", b, " is not whole in ", x);
    for (int64_t b = 0; b < x[0]; ++b)
      f(b, static_cast<int64_t>(at[2 * b]), static_cast<int64_t>(at[2 * b + 1]));
  });
}

}  // namespace troupe

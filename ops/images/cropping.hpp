// Shared by crop and its gradient: the checks and positions of boxes.
#pragma once

#include "ops/support/indices.hpp"
#include "ops/images/resizing.hpp"

namespace troupe {

// Context: InferContext or KernelContext. Throws: Error for shapes that do not fit.
template <class Context>
void check_crop(const Context& ctx, const Shape& x, const Shape& offsets) {
  require_images(ctx, x);
  const auto& size = image_size(ctx, 0);
  for (int d = 0; d < 2; ++d)
    if (x[d + 1] >= 0 && size[static_cast<size_t>(d)] > x[d + 1])
      throw ctx.error("cuts ", size[0], " rows and ", size[1], " columns out of ", x,
                      ", which has fewer");
  const int last = offsets.ndim() - 1;
  if (last < 0 || last > 1 || !may_equal(offsets[last], 2) ||
      (last == 1 && !may_equal(offsets[0], x[0])))
    throw ctx.error("wants offsets [2], top and left, or [batch, 2], got ", offsets, " for ", x);
}

// Throws: Error with the first image whose box is not inside it.
inline void check_boxes(const KernelContext& ctx, const Shape& x, const Tensor& offsets) {
  const auto& size = image_size(ctx, 0);
  const int64_t step = offsets.ndim() == 2 ? 2 : 0;
  with_indices(offsets, [&](const auto* at) {
    for (int64_t b = 0; b < x[0]; ++b)
      for (int d = 0; d < 2; ++d) {
        const int64_t first = at[b * step + d], room = x[d + 1] - size[static_cast<size_t>(d)];
        if (first < 0 || first > room)
          throw ctx.error(d == 0 ? "top " : "left ", first, " of image ", b, " is not in [0, ",
                          room, "], where the box is inside");
      }
  });
}

// Calls f(box) for each image in order; `box` is the index of the box's first element in x.
template <class F>
void with_boxes(const Shape& x, const Tensor& offsets, const F& f) {
  const int64_t step = offsets.ndim() == 2 ? 2 : 0, line = x[2] * x[3];
  with_indices(offsets, [&](const auto* at) {
    for (int64_t b = 0; b < x[0]; ++b)
      f((b * x[1] + at[b * step]) * line + at[b * step + 1] * x[3]);
  });
}

// Zeros like x_like, with dy at the position of crop's box.
Output crop_gradient(Output dy, Output offsets, Output x_like, int64_t height, int64_t width,
                     Origin at = Origin::here());

}  // namespace troupe

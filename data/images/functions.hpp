// Functions of sources over images. Each works on the field `field`, by default `image`, u8 [h, w,
// c], in whose place its result stands; other fields stay. Draws depend on the record's key alone.
#pragma once

#include "data/source/stage.hpp"

namespace troupe {

// decode_image: a JPEG or PNG file, u8 [-1], as u8 [h, w, channels]. `channels` as of
// decode_image() in troupe/files.hpp, 3 by default; `size` [h, w], which every image must have, by
// default any.
SourceStep bind_decode_image(const Fields& inputs, const SourceArgs& args);
// resize: to `size` [h, w], bilinear between the centres of pixels, without antialiasing, as
// PyTorch's interpolate(mode="bilinear") and TensorFlow's image.resize(); rounded to u8.
SourceStep bind_resize(const Fields& inputs, const SourceArgs& args);
// random_crop: a part of `size` [h, w] anywhere in the image with `padding` zeros on each side, 0
// by default.
SourceStep bind_random_crop(const Fields& inputs, const SourceArgs& args);
// random_flip: left and right change places with a probability of `probability`, 0.5 by default.
SourceStep bind_random_flip(const Fields& inputs, const SourceArgs& args);
// to_float: (x * `scale` - `mean`) / `std` as f32; the scale is 1/255 by default. Mean and standard
// deviation are lists of one number, or one for each channel, by default 0 and 1.
SourceStep bind_to_float(const Fields& inputs, const SourceArgs& args);

}  // namespace troupe

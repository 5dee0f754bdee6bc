// The decoders behind decode_image() (troupe/files.hpp), one a format.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "troupe/files.hpp"

namespace troupe {

// As decode_image(), for bytes that begin as the format does; `channels` is 0, 1 or 3.
Tensor decode_jpeg(std::span<const uint8_t> bytes, int64_t channels, const std::string& place);
Tensor decode_png(std::span<const uint8_t> bytes, int64_t channels, const std::string& place);

// An image to decode into. Throws: Error(bad_data) past kImageBytesMax.
Tensor empty_image(int64_t height, int64_t width, int64_t channels, const std::string& place);
// Grey values of `pixels` RGB pixels; `out` may be `rgb`.
void rgb_to_grey(const uint8_t* rgb, int64_t pixels, uint8_t* out);

}  // namespace troupe

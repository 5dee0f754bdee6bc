// Images: compressed pictures as tensors. Implemented in data/images/.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "troupe/tensor.hpp"

namespace troupe {

// Larger images (bytes, decoded) are refused before memory is taken for them.
inline constexpr int64_t kImageBytesMax = int64_t{1} << 28;

// A JPEG or PNG file, told apart by content, as u8 [height, width, channels]. `channels`: 1 (grey),
// 3 (RGB), or 0 for 1 if the image is grey and else 3. Colours become grey by ITU-R BT.601.
// Transparency is dropped, 16 bits become 8, and the orientation that a camera notes is not
// applied. `place`: the file or entry, with which messages begin. Any thread may call.
// Throws: Error(bad_data) for bytes that are no such image or are not whole, with the decoder's
// words; Error(invalid_argument) for another number of channels.
Tensor decode_image(std::span<const uint8_t> bytes, int64_t channels = 0,
                    const std::string& place = "image");

// The classes of the reader images (docs/input.md), sorted: the folders of a folder or tar. Give
// them as its argument `classes` to the sources for training and for evaluation, so that a label is
// the same class in both. Implemented in data/images/images.cpp. Throws: Error(io); Error(bad_data)
// for files of another form.
std::vector<std::string> image_classes(const std::string& path);

}  // namespace troupe

// decode_image(): the format by the first bytes, and the rules that both formats share.
#include "data/images/decode.hpp"

#include <algorithm>
#include <iterator>

namespace troupe {
namespace {

constexpr uint8_t kJpeg[] = {0xff, 0xd8, 0xff};
constexpr uint8_t kPng[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

bool begins_with(std::span<const uint8_t> bytes, std::span<const uint8_t> head) {
  return bytes.size() >= head.size() && std::equal(head.begin(), head.end(), bytes.begin());
}

std::string first_bytes(std::span<const uint8_t> bytes) {
  if (bytes.empty()) return "no bytes";
  std::string out = "bytes that begin with";
  for (const uint8_t byte : bytes.first(std::min<size_t>(bytes.size(), 4)))
    for (const char digit : {' ', "0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]})
      out += digit;
  return out;
}

}  // namespace

Tensor decode_image(std::span<const uint8_t> bytes, int64_t channels, const std::string& place) {
  if (channels != 0 && channels != 1 && channels != 3)
    throw Error(Errc::invalid_argument, place, ": an image has 1 or 3 channels, or 0 for ",
                "those of the file, got ", channels);
  if (begins_with(bytes, kJpeg)) return decode_jpeg(bytes, channels, place);
  if (begins_with(bytes, kPng)) return decode_png(bytes, channels, place);
  throw Error(Errc::bad_data, place, ": expected a JPEG or PNG image, found ", first_bytes(bytes));
}

Tensor empty_image(int64_t height, int64_t width, int64_t channels, const std::string& place) {
  // Both formats have sizes below 2^31.
  if (height > kImageBytesMax / (width * channels))
    throw Error(Errc::bad_data, place, ": an image of ", height, " x ", width, " x ", channels,
                " is larger than ", kImageBytesMax, " bytes; make it smaller");
  return Tensor::empty(DType::u8, Shape{height, width, channels});
}

// Y = 0.299 R + 0.587 G + 0.114 B (ITU-R BT.601), in 1/65536, as libjpeg computes it.
void rgb_to_grey(const uint8_t* rgb, int64_t pixels, uint8_t* out) {
  for (int64_t i = 0; i < pixels; ++i)
    out[i] = static_cast<uint8_t>(
        (19595u * rgb[3 * i] + 38470u * rgb[3 * i + 1] + 7471u * rgb[3 * i + 2] + 32768u) >> 16);
}

}  // namespace troupe

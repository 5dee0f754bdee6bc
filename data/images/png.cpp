// decode_png(): libpng. An error of it leaves its functions by longjmp(), so the functions here
// that call them have no locals with destructors.
#include <csetjmp>
#include <cstring>

#include <png.h>

#include "data/images/decode.hpp"

namespace troupe {
namespace {

class PngDecoder {
 public:
  explicit PngDecoder(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  ~PngDecoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  // These return false if libpng refuses; words() says why.
  bool read_header() {
    if (setjmp(failed_) != 0) return false;
    // Warnings are about chunks beside the pixels.
    png_ = png_create_read_struct(
        PNG_LIBPNG_VER_STRING, this,
        [](png_structp png, png_const_charp words) {
          static_cast<PngDecoder*>(png_get_error_ptr(png))->fail(words);
        },
        [](png_structp, png_const_charp) {});
    if (png_) info_ = png_create_info_struct(png_);
    if (!info_) fail("libpng has no memory");
    png_set_read_fn(png_, this, [](png_structp png, png_bytep to, size_t n) {
      static_cast<PngDecoder*>(png_get_io_ptr(png))->give(to, n);
    });
    png_read_info(png_, info_);
    return true;
  }
  // Rows of 1 channel for a grey image, of 3 for another one or with `as_rgb`.
  bool read_pixels(bool as_rgb, uint8_t* out) {
    if (setjmp(failed_) != 0) return false;
    png_set_expand(png_);  // palettes, fewer than 8 bits
    png_set_scale_16(png_);
    png_set_strip_alpha(png_);
    if (as_rgb && is_grey()) png_set_gray_to_rgb(png_);
    const int passes = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    const size_t row_bytes = static_cast<size_t>(width()) * (is_grey() && !as_rgb ? 1 : 3);
    if (png_get_rowbytes(png_, info_) != row_bytes) fail("its rows have an unknown form");
    for (int pass = 0; pass < passes; ++pass)
      for (int64_t y = 0; y < height(); ++y)
        png_read_row(png_, out + static_cast<size_t>(y) * row_bytes, nullptr);
    png_read_end(png_, nullptr);
    return true;
  }

  int64_t height() const { return png_get_image_height(png_, info_); }
  int64_t width() const { return png_get_image_width(png_, info_); }
  bool is_grey() const { return !(png_get_color_type(png_, info_) & PNG_COLOR_MASK_COLOR); }
  const char* words() const { return words_; }

 private:
  [[noreturn]] void fail(const char* words) {
    std::strncpy(words_, words, sizeof words_ - 1);
    std::longjmp(failed_, 1);
  }
  void give(uint8_t* to, size_t n) {
    if (n > bytes_.size()) fail("the data end early");
    std::memcpy(to, bytes_.data(), n);
    bytes_ = bytes_.subspan(n);
  }

  std::span<const uint8_t> bytes_;  // not read yet
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf failed_;
  char words_[200] = "";
};

}  // namespace

Tensor decode_png(std::span<const uint8_t> bytes, int64_t channels, const std::string& place) {
  PngDecoder png(bytes);
  const auto refused = [&] {
    return Error(Errc::bad_data, place, ": the PNG cannot be decoded: ", png.words());
  };
  if (!png.read_header()) throw refused();
  if (channels == 0) channels = png.is_grey() ? 1 : 3;
  Tensor out = empty_image(png.height(), png.width(), channels, place);
  if (channels == 3 || png.is_grey()) {
    if (!png.read_pixels(channels == 3, out.mutable_data<uint8_t>())) throw refused();
    return out;
  }
  Tensor rgb = empty_image(png.height(), png.width(), 3, place);
  if (!png.read_pixels(true, rgb.mutable_data<uint8_t>())) throw refused();
  rgb_to_grey(rgb.data<uint8_t>(), png.height() * png.width(), out.mutable_data<uint8_t>());
  return out;
}

}  // namespace troupe

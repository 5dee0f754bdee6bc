// decode_jpeg(): libjpeg. An error of it leaves its functions by longjmp(), so the functions here
// that call them have no locals with destructors.
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <vector>

#include <jpeglib.h>
#include <jerror.h>

#include "data/images/decode.hpp"

namespace troupe {
namespace {

// A progressive image has about ten. Each costs a pass over all pixels, and few bytes.
constexpr int kScansMax = 100;

// Warnings after which every pixel is as it was written. The others are about missing or corrupt
// data, for which libjpeg makes pixels up.
bool is_harmless(int code) {
  return code == JWRN_EXTRANEOUS_DATA || code == JWRN_JFIF_MAJOR || code == JWRN_ADOBE_XFORM;
}

class JpegDecoder {
 public:
  JpegDecoder() {
    info_.err = jpeg_std_error(&errors_);
    errors_.error_exit = [](j_common_ptr info) { fail(info); };
    errors_.emit_message = [](j_common_ptr info, int level) {
      if (level < 0 && !is_harmless(info->err->msg_code)) fail(info);
    };
    progress_.progress_monitor = [](j_common_ptr info) {
      if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kScansMax)
        static_cast<JpegDecoder*>(info->client_data)->fail("it has more than 100 scans");
    };
    info_.client_data = this;
  }
  ~JpegDecoder() { jpeg_destroy_decompress(&info_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // These return false if libjpeg refuses; words() says why.
  bool read_header(std::span<const uint8_t> bytes) {
    if (setjmp(failed_) != 0) return false;
    jpeg_create_decompress(&info_);
    info_.progress = &progress_;
    jpeg_mem_src(&info_, bytes.data(), bytes.size());
    jpeg_read_header(&info_, TRUE);
    return true;
  }
  bool read_pixels(J_COLOR_SPACE colours, uint8_t* out) {
    if (setjmp(failed_) != 0) return false;
    info_.out_color_space = colours;
    jpeg_start_decompress(&info_);
    const size_t row_bytes =
        size_t{info_.output_width} * static_cast<size_t>(info_.output_components);
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW rows[16];
      for (size_t i = 0; i < std::size(rows); ++i)  // libjpeg writes no row past the last one
        rows[i] = out + (info_.output_scanline + i) * row_bytes;
      jpeg_read_scanlines(&info_, rows, std::size(rows));
    }
    jpeg_finish_decompress(&info_);
    return true;
  }

  int64_t height() const { return info_.image_height; }
  int64_t width() const { return info_.image_width; }
  bool is_grey() const { return info_.num_components == 1; }
  bool is_cmyk() const {
    return info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
  }
  bool is_inverted() const { return info_.saw_Adobe_marker; }  // Adobe writes 255 - ink
  const char* words() const { return words_; }

 private:
  [[noreturn]] static void fail(j_common_ptr info) {
    auto* self = static_cast<JpegDecoder*>(info->client_data);
    info->err->format_message(info, self->words_);
    std::longjmp(self->failed_, 1);
  }
  [[noreturn]] void fail(const char* words) {
    std::strncpy(words_, words, sizeof words_ - 1);
    std::longjmp(failed_, 1);
  }

  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf failed_;
  char words_[JMSG_LENGTH_MAX] = "";
};

// Colour is what the inks leave over: (1 - ink) (1 - black).
void cmyk_to_rgb(const uint8_t* cmyk, int64_t pixels, bool inverted, uint8_t* out) {
  const auto left = [&](uint8_t ink) { return inverted ? ink : 255 - ink; };
  for (int64_t i = 0; i < pixels; ++i)
    for (int64_t c = 0; c < 3; ++c)
      out[3 * i + c] =
          static_cast<uint8_t>((left(cmyk[4 * i + c]) * left(cmyk[4 * i + 3]) + 127) / 255);
}

}  // namespace

Tensor decode_jpeg(std::span<const uint8_t> bytes, int64_t channels, const std::string& place) {
  JpegDecoder jpeg;
  const auto refused = [&] {
    return Error(Errc::bad_data, place, ": the JPEG cannot be decoded: ", jpeg.words());
  };
  if (!jpeg.read_header(bytes)) throw refused();
  if (channels == 0) channels = jpeg.is_grey() ? 1 : 3;
  const int64_t pixels = jpeg.height() * jpeg.width();
  Tensor out = empty_image(jpeg.height(), jpeg.width(), channels, place);
  auto* to = out.mutable_data<uint8_t>();
  if (!jpeg.is_cmyk()) {
    if (!jpeg.read_pixels(channels == 1 ? JCS_GRAYSCALE : JCS_RGB, to)) throw refused();
    return out;
  }
  Tensor cmyk = empty_image(jpeg.height(), jpeg.width(), 4, place);
  auto* inks = cmyk.mutable_data<uint8_t>();
  if (!jpeg.read_pixels(JCS_CMYK, inks)) throw refused();
  cmyk_to_rgb(inks, pixels, jpeg.is_inverted(), channels == 3 ? to : inks);
  if (channels == 1) rgb_to_grey(inks, pixels, to);
  return out;
}

}  // namespace troupe

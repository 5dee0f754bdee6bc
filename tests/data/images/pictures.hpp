// JPEG and PNG files that libjpeg and libpng write for tests of readers.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

#include <jpeglib.h>
#include <png.h>

#include "troupe/tensor.hpp"

namespace troupe {

struct JpegForm {
  J_COLOR_SPACE colours = JCS_RGB;  // of the pixels
  bool progressive = false;
  int restart_rows = 0;  // a restart marker after so many rows of blocks
  int quality = 100;
};

// A file of u8 pixels [h, w, channels].
inline std::string jpeg_file(const Tensor& pixels, const JpegForm& form = {}) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // NOLINT: libjpeg's type
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_height = static_cast<JDIMENSION>(pixels.dim(0));
  info.image_width = static_cast<JDIMENSION>(pixels.dim(1));
  info.input_components = static_cast<int>(pixels.dim(2));
  info.in_color_space = form.colours;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, form.quality, TRUE);
  info.comp_info[0].h_samp_factor = info.comp_info[0].v_samp_factor = 1;
  info.restart_in_rows = form.restart_rows;
  if (form.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  for (int64_t y = 0; y < pixels.dim(0); ++y) {
    auto* row = const_cast<JSAMPROW>(pixels.data<uint8_t>()) + y * pixels.dim(1) * pixels.dim(2);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string out(reinterpret_cast<char*>(bytes), size);
  std::free(bytes);
  return out;
}

struct PngForm {
  int colours = PNG_COLOR_TYPE_RGB;
  int bits = 8;
  int interlace = PNG_INTERLACE_NONE;
  std::string palette = {};  // RGB triples
};

// A file of `rows` of packed pixels, `height` of them with equally many bytes.
inline std::string png_file(int width, int height, const std::string& rows,
                            const PngForm& form = {}) {
  std::string out;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &out,
      [](png_structp p, png_bytep bytes, size_t n) {
        static_cast<std::string*>(png_get_io_ptr(p))->append(reinterpret_cast<char*>(bytes), n);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height),
               form.bits, form.colours, form.interlace, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  if (!form.palette.empty())
    png_set_PLTE(png, info, reinterpret_cast<png_const_colorp>(form.palette.data()),
                 static_cast<int>(form.palette.size() / 3));
  png_write_info(png, info);
  const int passes = png_set_interlace_handling(png);
  const size_t row_bytes = rows.size() / static_cast<size_t>(height);
  for (int pass = 0; pass < passes; ++pass)
    for (int y = 0; y < height; ++y)
      png_write_row(
          png, reinterpret_cast<png_const_bytep>(rows.data()) + static_cast<size_t>(y) * row_bytes);
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return out;
}

inline std::span<const uint8_t> bytes_of(const std::string& file) {
  return {reinterpret_cast<const uint8_t*>(file.data()), file.size()};
}

// An image of one colour, which a JPEG keeps to the last bit or nearly.
inline Tensor one_colour(int64_t height, int64_t width, std::initializer_list<uint8_t> colour) {
  const auto channels = static_cast<int64_t>(colour.size());
  Tensor out = Tensor::empty(DType::u8, Shape{height, width, channels});
  for (int64_t i = 0; i < out.size(); ++i)
    out.mutable_data<uint8_t>()[i] = colour.begin()[i % channels];
  return out;
}

}  // namespace troupe

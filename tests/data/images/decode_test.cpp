// decode_image(): the forms of JPEG and PNG files, against the pixels that libjpeg and libpng were
// given; and files that are corrupt at any byte.
#include "tests/data/images/pictures.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/files.hpp"

namespace troupe {
namespace {

Tensor decode(const std::string& file, int64_t channels = 0) {
  return decode_image(bytes_of(file), channels, "x.tar: a/1");
}

// Largest difference of an element.
int distance(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  int out = 0;
  for (int64_t i = 0; i < a.size(); ++i)
    out = std::max(out, std::abs(int{a.data<uint8_t>()[i]} - int{b.data<uint8_t>()[i]}));
  return out;
}

// Slow changes of brightness and colour.
Tensor ramp(int64_t height, int64_t width, int64_t channels) {
  Tensor out = Tensor::empty(DType::u8, Shape{height, width, channels});
  for (int64_t y = 0, i = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x)
      for (int64_t c = 0; c < channels; ++c)
        out.mutable_data<uint8_t>()[i++] = static_cast<uint8_t>(60 + 3 * y + (c + 1) * x);
  return out;
}

std::string text(std::initializer_list<int> bytes) {
  std::string out;
  for (const int b : bytes) out += static_cast<char>(b);
  return out;
}

TEST_CASE("a JPEG gives the pixels it was made of, in each form") {
  const Tensor colours = ramp(19, 37, 3);
  CHECK(distance(decode(jpeg_file(colours)), colours) <= 3);
  CHECK(distance(decode(jpeg_file(colours, {.progressive = true})), colours) <= 3);
  CHECK(distance(decode(jpeg_file(colours, {.restart_rows = 1})), colours) <= 3);
  const Tensor grey = ramp(19, 37, 1);
  CHECK(distance(decode(jpeg_file(grey, {.colours = JCS_GRAYSCALE})), grey) <= 1);
}

TEST_CASE("channels of a JPEG are the file's, or those that are asked for") {
  const std::string red = jpeg_file(one_colour(2, 3, {200, 40, 90}));
  const std::string grey = jpeg_file(one_colour(2, 3, {77}), {.colours = JCS_GRAYSCALE});
  CHECK(decode(red).shape() == Shape{2, 3, 3});
  CHECK(decode(grey).shape() == Shape{2, 3, 1});
  CHECK(same_bits(decode(grey, 3), one_colour(2, 3, {77, 77, 77})));
  // 0.299 * 200 + 0.587 * 40 + 0.114 * 90 = 93.5
  CHECK(distance(decode(red, 1), one_colour(2, 3, {93})) <= 1);
}

TEST_CASE("a JPEG of four inks becomes colours, as Adobe writes them and not") {
  // libjpeg marks CMYK files as Adobe's, whose inks are inverted: 255 is none.
  std::string inks = jpeg_file(one_colour(2, 3, {255, 51, 255, 204}), {.colours = JCS_CMYK});
  CHECK(distance(decode(inks), one_colour(2, 3, {204, 41, 204})) <= 1);
  CHECK(distance(decode(inks, 1), one_colour(2, 3, {108})) <= 1);
  const size_t mark = inks.find("Adobe");
  REQUIRE(mark != inks.npos);
  inks.replace(mark, 5, "Other");
  CHECK(distance(decode(inks), one_colour(2, 3, {0, 41, 0})) <= 1);
}

TEST_CASE("a PNG gives exactly its pixels, in each form") {
  const std::string rgb = text({255, 0, 0, 0, 255, 0, 10, 20, 30, 1, 2, 3});
  const Tensor image =
      Tensor::of<uint8_t>({255, 0, 0, 0, 255, 0, 10, 20, 30, 1, 2, 3}, Shape{2, 2, 3});
  CHECK(same_bits(decode(png_file(2, 2, rgb)), image));
  CHECK(same_bits(decode(png_file(2, 2, rgb, {.interlace = PNG_INTERLACE_ADAM7})), image));
  // 0.299 R + 0.587 G + 0.114 B: 76.2, 149.7, 18.2, 1.8
  CHECK(same_bits(decode(png_file(2, 2, rgb), 1),
                  Tensor::of<uint8_t>({76, 150, 18, 2}, Shape{2, 2, 1})));
  const PngForm rgba{.colours = PNG_COLOR_TYPE_RGBA};
  CHECK(same_bits(decode(png_file(1, 2, text({9, 8, 7, 0, 6, 5, 4, 200}), rgba)),
                  Tensor::of<uint8_t>({9, 8, 7, 6, 5, 4}, Shape{2, 1, 3})));
  const PngForm wide{.bits = 16};
  CHECK(same_bits(decode(png_file(1, 1, text({0x12, 0x34, 0xff, 0xff, 0x00, 0xff}), wide)),
                  Tensor::of<uint8_t>({0x12, 0xff, 0x01}, Shape{1, 1, 3})));
  const PngForm palette{
      .colours = PNG_COLOR_TYPE_PALETTE, .bits = 2, .palette = text({1, 2, 3, 7, 8, 9})};
  CHECK(same_bits(decode(png_file(3, 1, text({0b01000100}), palette)),
                  Tensor::of<uint8_t>({7, 8, 9, 1, 2, 3, 7, 8, 9}, Shape{1, 3, 3})));
  const PngForm bits{.colours = PNG_COLOR_TYPE_GRAY, .bits = 1};
  CHECK(same_bits(decode(png_file(3, 1, text({0b10100000}), bits)),
                  Tensor::of<uint8_t>({255, 0, 255}, Shape{1, 3, 1})));
  const PngForm grey{.colours = PNG_COLOR_TYPE_GRAY_ALPHA};
  CHECK(same_bits(decode(png_file(1, 1, text({5, 9}), grey), 3),
                  Tensor::of<uint8_t>({5, 5, 5}, Shape{1, 1, 3})));
}

TEST_CASE("an image that is cut short at any byte is refused with the place") {
  const Tensor pixels = ramp(19, 37, 3);
  const std::string rows(reinterpret_cast<const char*>(pixels.data<uint8_t>()), 19 * 37 * 3);
  for (const std::string& file :
       {jpeg_file(pixels), jpeg_file(pixels, {.progressive = true}), png_file(37, 19, rows),
        png_file(37, 19, rows, {.interlace = PNG_INTERLACE_ADAM7})})
    for (size_t n = 0; n < file.size(); n += n < 64 ? 1 : 7) {
      CAPTURE(n);
      check_error(
          Errc::bad_data, [&] { decode(file.substr(0, n)); }, "x.tar: a/1: ");
    }
  const std::string jpeg = jpeg_file(pixels);
  check_error(
      Errc::bad_data, [&] { decode(jpeg.substr(0, jpeg.size() - 2)); },
      "the JPEG cannot be decoded: Premature end of JPEG file");
  const std::string png = png_file(37, 19, rows);
  check_error(
      Errc::bad_data, [&] { decode(png.substr(0, png.size() - 1)); },
      "the PNG cannot be decoded: the data end early");
}

TEST_CASE("a byte that is wrong gives other pixels or a refusal, never more") {
  const Tensor pixels = ramp(19, 37, 3);
  const std::string rows(reinterpret_cast<const char*>(pixels.data<uint8_t>()), 19 * 37 * 3);
  for (const std::string& file :
       {jpeg_file(pixels), jpeg_file(pixels, {.progressive = true, .restart_rows = 1}),
        png_file(37, 19, rows)}) {
    int64_t refused = 0, decoded = 0;
    for (size_t at = 0; at < file.size(); ++at)
      for (const int change : {0x01, 0x80, 0xff}) {
        std::string bad = file;
        bad[at] = static_cast<char>(bad[at] ^ change);
        const Errc code = code_of([&] { decode(bad); });
        CHECK((code == Errc::ok || code == Errc::bad_data));
        ++(code == Errc::ok ? decoded : refused);
      }
    CHECK(refused > decoded / 10);
  }
  std::string png = png_file(37, 19, rows);
  png[png.find("IEND") - 5] ^= 1;  // in the checksum of the pixels
  check_error(
      Errc::bad_data, [&] { decode(png); }, "the PNG cannot be decoded: IDAT: CRC error");
}

TEST_CASE("bytes after a JPEG, and between its markers, do not matter") {
  const Tensor pixels = one_colour(8, 8, {77});
  std::string file = jpeg_file(pixels, {.colours = JCS_GRAYSCALE});
  CHECK(same_bits(decode(file + "rest"), pixels));
  file.insert(file.size() - 2, "xx");  // before the end marker: libjpeg warns of it
  CHECK(same_bits(decode(file), pixels));
}

TEST_CASE("bytes that are no image, and sizes past the limit, are refused") {
  check_error(
      Errc::bad_data, [] { decode(""); }, "expected a JPEG or PNG image, found no bytes");
  check_error(
      Errc::bad_data, [] { decode("GIF89a"); }, "bytes that begin with 47 49 46 38");
  check_invalid([] { decode("", 4); }, "1 or 3 channels, or 0 for those of the file, got 4");
  std::string jpeg = jpeg_file(one_colour(8, 8, {77, 78, 79}));
  const size_t frame = jpeg.find("\xff\xc0");
  REQUIRE(frame != jpeg.npos);
  jpeg.replace(frame + 5, 4, "\xff\xdc\xff\xdc");  // height and width
  check_error(
      Errc::bad_data, [&] { decode(jpeg); },
      "an image of 65500 x 65500 x 3 is larger than 268435456 bytes");
}

}  // namespace
}  // namespace troupe

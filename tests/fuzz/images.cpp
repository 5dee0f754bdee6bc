// JPEG and PNG images.
#include "tests/data/images/pictures.hpp"
#include "tests/fuzz/targets.hpp"
#include "troupe/files.hpp"

namespace troupe::fuzz {
namespace {

void run_images(std::string_view bytes) {
  Input in(bytes);
  const int64_t channels = in.number<uint8_t>() % 2 == 0 ? 0 : 3;
  const std::string_view file = in.rest();
  const Tensor image =
      decode_image({reinterpret_cast<const uint8_t*>(file.data()), file.size()}, channels, "f");
  promise(image.ndim() == 3 && (channels == 0 || image.dim(2) == channels),
          "an image is [h, w, c]");
}

Seeds seeds() {
  const Tensor colours = one_colour(4, 5, {200, 40, 90});
  const std::string rows(3 * 4 * 5, 'p');
  // The first byte chooses the channels.
  Seeds out;
  for (const std::string& file :
       {jpeg_file(colours), jpeg_file(colours, {.progressive = true}), png_file(5, 4, rows),
        png_file(5, 4, rows, {.interlace = PNG_INTERLACE_ADAM7})}) {
    out.emplace_back(1, static_cast<char>(out.size()));
    out.back() += file;
  }
  return out;
}

}  // namespace

Target images_target() { return {"images", run_images, seeds}; }

}  // namespace troupe::fuzz

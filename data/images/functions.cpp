// The functions of sources over images.
#include "data/images/functions.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "data/random.hpp"
#include "data/source/fields.hpp"
#include "troupe/files.hpp"

namespace troupe {
namespace {

const TensorType kImage = {DType::u8, {-1, -1, -1}};

using Draws = SplitMix;
// Two functions of one source draw different numbers.
Draws draws_of(const SourceCall& call, uint64_t function) {
  return {call.key() ^ SplitMix{function}.next()};
}

struct Size {
  int64_t height, width;
};

Size want_size(ArgReader& read, std::string_view function) {
  const auto size = read.want<std::vector<int64_t>>("size");
  if (size.size() != 2 || size[0] < 1 || size[1] < 1 || size[0] > kImageBytesMax / size[1])
    throw Error(Errc::invalid_argument, function, " wants a height and a width from 1 on as size");
  return {size[0], size[1]};
}

// A step that puts f(call, image) in the place of field `at`, with the type `type`.
template <class F>
SourceStep replacing(const Fields& inputs, size_t at, TensorType type, F f) {
  SourceStep out;
  out.fields = inputs;
  out.fields[at].type = std::move(type);
  out.map = [at, f = std::move(f)](const SourceCall& call) {
    Record record = call.record();
    record[at] = f(call, record[at]);
    return record;
  };
  return out;
}

// Output i of n lies between inputs `low` and `low` + `step` of m, `weight` of the way to the
// latter. Centres of pixels are at i + 1/2: x = (i + 1/2) m / n - 1/2, at least 0.
struct Tap {
  int64_t low, step;
  float weight;
};
std::vector<Tap> taps_of(int64_t m, int64_t n) {
  const float scale = static_cast<float>(m) / static_cast<float>(n);
  std::vector<Tap> out;
  for (int64_t i = 0; i < n; ++i) {
    const float x = std::max(scale * (static_cast<float>(i) + 0.5F) - 0.5F, 0.0F);
    const int64_t low = std::min(static_cast<int64_t>(x), m - 1);
    out.push_back({low, low + 1 < m ? 1 : 0, x - static_cast<float>(low)});
  }
  return out;
}

Tensor resized(const Tensor& image, Size size) {
  const int64_t c = image.dim(2), row = image.dim(1) * c;
  Tensor out = Tensor::empty(DType::u8, Shape{size.height, size.width, c});
  const std::vector<Tap> ys = taps_of(image.dim(0), size.height),
                         xs = taps_of(image.dim(1), size.width);
  auto* to = out.mutable_data<uint8_t>();
  for (const Tap& y : ys) {
    const uint8_t* top = image.data<uint8_t>() + y.low * row;
    const uint8_t* bottom = top + y.step * row;
    for (const Tap& x : xs) {
      const int64_t left = x.low * c, right = left + x.step * c;
      const auto between = [&](const uint8_t* line, int64_t k) {
        const float from = line[left + k], until = line[right + k];
        return from + (until - from) * x.weight;
      };
      for (int64_t k = 0; k < c; ++k) {
        const float upper = between(top, k), lower = between(bottom, k);
        *to++ = static_cast<uint8_t>(std::nearbyint(upper + (lower - upper) * y.weight));
      }
    }
  }
  return out;
}

// The part of an image that begins at (top, left), which may be outside; there it is 0.
Tensor cropped(const Tensor& image, int64_t top, int64_t left, Size size) {
  const int64_t h = image.dim(0), w = image.dim(1), c = image.dim(2);
  Tensor out = Tensor::zeros(DType::u8, Shape{size.height, size.width, c});
  const int64_t begin = std::max<int64_t>(left, 0), end = std::min(left + size.width, w);
  if (begin >= end) return out;
  for (int64_t y = std::max<int64_t>(top, 0); y < std::min(top + size.height, h); ++y)
    std::memcpy(out.mutable_data<uint8_t>() + ((y - top) * size.width + begin - left) * c,
                image.data<uint8_t>() + (y * w + begin) * c,
                static_cast<size_t>((end - begin) * c));
  return out;
}

Tensor flipped(const Tensor& image) {
  const int64_t rows = image.dim(0), w = image.dim(1), c = image.dim(2);
  Tensor out = Tensor::empty(DType::u8, image.shape());
  auto* to = out.mutable_data<uint8_t>();
  for (int64_t y = 0; y < rows; ++y)
    for (int64_t x = w; x-- > 0; to += c)
      std::memcpy(to, image.data<uint8_t>() + (y * w + x) * c, static_cast<size_t>(c));
  return out;
}

// A number for each channel; an image of `channels` of them, -1 if that is not known yet.
float channel(const std::vector<double>& numbers, int64_t k) {
  return static_cast<float>(numbers[numbers.size() == 1 ? 0 : static_cast<size_t>(k)]);
}
void check_channels(const char* name, const std::vector<double>& numbers, int64_t channels) {
  const auto n = static_cast<int64_t>(numbers.size());
  if (n == 0 || (n != 1 && channels >= 0 && n != channels))
    throw Error(Errc::invalid_argument, "to_float wants one number as ", name, ", or one for each ",
                "of ", channels, " channels, got ", n);
}

}  // namespace

SourceStep bind_decode_image(const Fields& inputs, const SourceArgs& args) {
  ArgReader read("decode_image", args);
  const auto field = read.get<std::string>("field", "image");
  const auto channels = read.get<int64_t>("channels", 3);
  const auto size = read.get<std::vector<int64_t>>("size", {-1, -1});
  read.done();
  if (channels != 0 && channels != 1 && channels != 3)
    throw Error(Errc::invalid_argument, "decode_image wants 0, 1 or 3 channels, got ", channels);
  if (size.size() != 2 || size[0] < -1 || size[1] < -1)
    throw Error(Errc::invalid_argument, "decode_image wants height and width as size");
  const size_t at = field_of("decode_image", inputs, field, {DType::u8, {-1}});
  const Shape shape = {size[0], size[1], channels == 0 ? -1 : channels};
  return replacing(inputs, at, {DType::u8, shape}, [=](const SourceCall& call, const Tensor& file) {
    Tensor image = decode_image(file.values<uint8_t>(), channels, call.place());
    if (!shape.accepts(image.shape()))
      throw call.bad("the image is ", image.shape(), ", the argument size says ", shape);
    return image;
  });
}

SourceStep bind_resize(const Fields& inputs, const SourceArgs& args) {
  ArgReader read("resize", args);
  const auto field = read.get<std::string>("field", "image");
  const Size size = want_size(read, "resize");
  read.done();
  const size_t at = field_of("resize", inputs, field, kImage);
  const Shape shape = {size.height, size.width, inputs[at].type.shape[2]};
  return replacing(
      inputs, at, {DType::u8, shape}, [=](const SourceCall& call, const Tensor& image) {
        if (image.size() == 0) throw call.bad("the image ", image.shape(), " has no pixels");
        return image.dim(0) == size.height && image.dim(1) == size.width ? image
                                                                         : resized(image, size);
      });
}

SourceStep bind_random_crop(const Fields& inputs, const SourceArgs& args) {
  ArgReader read("random_crop", args);
  const auto field = read.get<std::string>("field", "image");
  const auto padding = read.get<int64_t>("padding", 0);
  const Size size = want_size(read, "random_crop");
  read.done();
  if (padding < 0 || padding > kImageBytesMax)
    throw Error(Errc::invalid_argument, "random_crop wants a padding from 0 on, got ", padding);
  const size_t at = field_of("random_crop", inputs, field, kImage);
  const Shape shape = {size.height, size.width, inputs[at].type.shape[2]};
  return replacing(
      inputs, at, {DType::u8, shape}, [=](const SourceCall& call, const Tensor& image) {
        const int64_t down = image.dim(0) + 2 * padding - size.height,
                      right = image.dim(1) + 2 * padding - size.width;
        if (down < 0 || right < 0)
          throw call.bad("the image ", image.shape(), " with a padding of ", padding,
                         " is smaller than the crop of ", size.height, " x ", size.width);
        Draws draws = draws_of(call, 'c');
        const auto top = static_cast<int64_t>(draws.below(static_cast<uint64_t>(down) + 1));
        const auto left = static_cast<int64_t>(draws.below(static_cast<uint64_t>(right) + 1));
        return cropped(image, top - padding, left - padding, size);
      });
}

SourceStep bind_random_flip(const Fields& inputs, const SourceArgs& args) {
  ArgReader read("random_flip", args);
  const auto field = read.get<std::string>("field", "image");
  const auto probability = read.get<double>("probability", 0.5);
  read.done();
  if (!(probability >= 0 && probability <= 1))
    throw Error(Errc::invalid_argument, "random_flip wants a probability from 0 to 1, got ",
                probability);
  const size_t at = field_of("random_flip", inputs, field, kImage);
  return replacing(inputs, at, inputs[at].type, [=](const SourceCall& call, const Tensor& image) {
    // 53 bits, as a double has: uniform in [0, 1).
    const bool flips =
        static_cast<double>(draws_of(call, 'f').next() >> 11) * 0x1p-53 < probability;
    return flips ? flipped(image) : image;
  });
}

SourceStep bind_to_float(const Fields& inputs, const SourceArgs& args) {
  ArgReader read("to_float", args);
  const auto field = read.get<std::string>("field", "image");
  const auto scale = read.get<double>("scale", 1.0 / 255);
  const auto mean = read.get<std::vector<double>>("mean", {0});
  const auto deviation = read.get<std::vector<double>>("std", {1});
  read.done();
  const size_t at = field_of("to_float", inputs, field, kImage);
  const Shape shape = inputs[at].type.shape;
  check_channels("mean", mean, shape[2]);
  check_channels("std", deviation, shape[2]);
  if (std::find(deviation.begin(), deviation.end(), 0) != deviation.end())
    throw Error(Errc::invalid_argument, "to_float wants a std that is not 0");
  return replacing(inputs, at, {DType::f32, shape}, [=](const SourceCall&, const Tensor& image) {
    const int64_t channels = image.dim(2);
    check_channels("mean", mean, channels);
    check_channels("std", deviation, channels);
    Tensor out = Tensor::empty(DType::f32, image.shape());
    float* to = out.mutable_data<float>();
    const uint8_t* from = image.data<uint8_t>();
    for (int64_t k = 0; k < channels; ++k) {
      const float shift = channel(mean, k), divisor = channel(deviation, k);
      for (int64_t i = k; i < image.size(); i += channels)
        to[i] = (static_cast<float>(from[i]) * static_cast<float>(scale) - shift) / divisor;
    }
    return out;
  });
}

}  // namespace troupe

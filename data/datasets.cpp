// The data sets of troupe/data.hpp: digits and MNIST.
#include <unistd.h>

#include "troupe/data.hpp"

namespace troupe {
namespace {

constexpr int64_t kClasses = 10;

Tensor scaled(const Tensor& images, float most) {
  Tensor out = Tensor::empty(DType::f32, Shape{images.dim(0), images.dim(1), images.dim(2), 1});
  float* to = out.mutable_data<float>();
  const uint8_t* from = images.data<uint8_t>();
  for (int64_t i = 0; i < images.size(); ++i) to[i] = static_cast<float>(from[i]) / most;
  return out;
}

// `name` in `dir`, plain or with ".gz".
std::string find_file(const std::string& dir, const std::string& name) {
  const std::string path = dir + "/" + name;
  for (const std::string& candidate : {path, path + ".gz"})
    if (::access(candidate.c_str(), F_OK) == 0) return candidate;
  throw Error(Errc::io, "there is neither ", path, " nor ", path,
              ".gz; put MNIST's four IDX files into ", dir);
}

Dataset load_part(const std::string& dir, const std::string& part) {
  const std::string images_path = find_file(dir, part + "-images-idx3-ubyte"),
                    labels_path = find_file(dir, part + "-labels-idx1-ubyte");
  const Tensor images = read_idx(images_path), raw = read_idx(labels_path);
  if (images.dtype() != DType::u8 || images.ndim() != 3 || images.dim(1) != 28 ||
      images.dim(2) != 28)
    throw Error(Errc::bad_data, images_path, ": expected u8[n, 28, 28], found ", images.dtype(),
                images.shape());
  if (raw.dtype() != DType::u8 || raw.ndim() != 1 || raw.dim(0) != images.dim(0))
    throw Error(Errc::bad_data, labels_path, ": expected u8[", images.dim(0),
                "], a label for each image, found ", raw.dtype(), raw.shape());
  if (images.dim(0) == 0) throw Error(Errc::bad_data, images_path, ": expected images, found none");
  Tensor labels = Tensor::empty(DType::i64, raw.shape());
  for (int64_t i = 0; i < raw.size(); ++i) {
    const uint8_t label = raw.data<uint8_t>()[i];
    if (label >= kClasses)
      throw Error(Errc::bad_data, labels_path, ": record ", i,
                  ": expected a label from 0 to 9, found ", int{label});
    labels.mutable_data<int64_t>()[i] = label;
  }
  return {scaled(images, 255), std::move(labels)};
}

}  // namespace

Dataset Dataset::rows(int64_t begin, int64_t end) const {
  return {features.rows(begin, end), labels.rows(begin, end)};
}

Dataset load_digits(const std::string& path) {
  constexpr float kInk = 16;  // each pixel counts the dark ones of a 4 x 4 block
  const Dataset table = read_csv(path, {.classes = kClasses});
  if (table.features.dim(1) != 64)
    throw Error(Errc::bad_data, path, ": expected 64 pixels and a label, found ",
                table.features.dim(1), " features");
  Tensor images = Tensor::empty(DType::f32, Shape{table.size(), 8, 8, 1});
  for (int64_t i = 0; i < images.size(); ++i) {
    const float ink = table.features.data<float>()[i];
    if (ink < 0 || ink > kInk)
      throw Error(Errc::bad_data, path, ": line ", i / 64 + 2,
                  ": expected pixels from 0 to 16, found ", ink);
    images.mutable_data<float>()[i] = ink / kInk;
  }
  return {std::move(images), table.labels};
}

TrainTest load_mnist(const std::string& dir) {
  return {load_part(dir, "train"), load_part(dir, "t10k")};
}

}  // namespace troupe

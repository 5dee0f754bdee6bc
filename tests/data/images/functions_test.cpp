// The functions of sources over images.
#include <map>
#include <set>

#include "data/images/functions.hpp"
#include "tests/data/images/pictures.hpp"
#include "tests/support/refusal.hpp"

namespace troupe {
namespace {

using Sizes = std::vector<int64_t>;
using Numbers = std::vector<double>;

const SourceFunction& function(std::string_view name) {
  for (const SourceFunction& f : builtin_functions())
    if (f.name == name) return f;
  throw Error(Errc::internal, "no function ", name);
}

// The result of a function for records of an image and a label.
Tensor apply(const char* name, const Tensor& image, const SourceArgs& args, uint64_t key = 0,
             Shape declared = {-1, -1, -1}) {
  const Fields inputs = {{"label", {DType::i64, {}}}, {"image", {DType::u8, declared}}};
  const SourceStep step = function(name).bind(inputs, args);
  const Record input = {Tensor::scalar<int64_t>(5), image};
  const std::string place = "a.tar: cat/1.png";
  const Record out = step.map(SourceCall(inputs, input, key, place));
  REQUIRE(out.size() == 2);
  CHECK(out[0].item<int64_t>() == 5);
  CHECK(step.fields[0] == inputs[0]);
  CHECK(step.fields[1].type.dtype == out[1].dtype());
  CHECK(step.fields[1].type.shape.accepts(out[1].shape()));
  return out[1];
}

Tensor counted(int64_t h, int64_t w, int64_t c) {
  Tensor out = Tensor::empty(DType::u8, Shape{h, w, c});
  for (int64_t i = 0; i < out.size(); ++i)
    out.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(1 + i);
  return out;
}

TEST_CASE("resize is bilinear between the centres of pixels") {
  const Tensor two = Tensor::of<uint8_t>({0, 100, 100, 200}, {2, 2, 1});
  CHECK(same_bits(
      apply("resize", two, {{"size", Sizes{4, 4}}}),
      Tensor::of<uint8_t>({0, 25, 75, 100, 25, 50, 100, 125, 75, 100, 150, 175, 100, 125, 175, 200},
                          {4, 4, 1})));
  const Tensor wide = apply("resize", counted(2, 6, 2), {{"size", Sizes{2, 3}}});
  CHECK(same_bits(wide,
                  Tensor::of<uint8_t>({2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23}, {2, 3, 2})));
  // Halves become even: 1.5, 3.5 and 5.5.
  CHECK(same_bits(apply("resize", counted(3, 2, 1), {{"size", Sizes{3, 1}}}),
                  Tensor::of<uint8_t>({2, 4, 6}, {3, 1, 1})));
  const Tensor image = counted(3, 5, 3);
  CHECK(same_bits(apply("resize", image, {{"size", Sizes{3, 5}}}), image));
  CHECK(same_bits(apply("resize", one_colour(1, 1, {7, 8, 9}), {{"size", Sizes{2, 3}}}),
                  one_colour(2, 3, {7, 8, 9})));
}

TEST_CASE("random_crop takes every part equally often, and the same one for a key") {
  const Tensor image = counted(3, 4, 1);
  std::map<std::string, int> seen;
  for (uint64_t key = 0; key < 6000; ++key) {
    const SourceArgs args = {{"size", Sizes{2, 2}}};
    const Tensor part = apply("random_crop", image, args, key);
    if (key < 10) CHECK(same_bits(part, apply("random_crop", image, args, key)));
    const auto v = part.values<uint8_t>();
    CHECK((v[1] == v[0] + 1 && v[2] == v[0] + 4 && v[3] == v[0] + 5));
    ++seen[std::string(v.begin(), v.end())];
  }
  CHECK(seen.size() == 6);
  for (const auto& [part, times] : seen) CHECK(std::abs(times - 1000) < 150);  // 5 deviations
}

TEST_CASE("random_crop takes zeros from outside of the image") {
  const Tensor image = one_colour(1, 1, {7, 8});
  std::set<size_t> places;
  for (uint64_t key = 0; key < 200; ++key) {
    const auto part =
        apply("random_crop", image, {{"size", Sizes{2, 2}}, {"padding", int64_t{1}}}, key);
    const auto v = part.values<uint8_t>();
    const auto at = static_cast<size_t>(std::find(v.begin(), v.end(), 7) - v.begin());
    REQUIRE(at % 2 == 0);
    REQUIRE(at < 8);
    CHECK(v[at + 1] == 8);
    CHECK(std::count(v.begin(), v.end(), 0) == 6);
    places.insert(at);
  }
  CHECK(places.size() == 4);
}

TEST_CASE("random_flip exchanges left and right as often as it is told") {
  const Tensor image = counted(2, 2, 2);
  const Tensor flipped = Tensor::of<uint8_t>({3, 4, 1, 2, 7, 8, 5, 6}, {2, 2, 2});
  const auto flips = [&](double probability) {
    int out = 0;
    for (uint64_t key = 0; key < 2000; ++key) {
      const Tensor made = apply("random_flip", image, {{"probability", probability}}, key);
      CHECK((same_bits(made, image) || same_bits(made, flipped)));
      out += same_bits(made, flipped) ? 1 : 0;
    }
    return out;
  };
  CHECK(flips(0) == 0);
  CHECK(flips(1) == 2000);
  CHECK(std::abs(flips(0.5) - 1000) < 110);  // 5 deviations
  CHECK(std::abs(flips(0.1) - 200) < 70);
}

TEST_CASE("crops and flips of a key are independent") {
  const Tensor image = counted(1, 2, 1);
  int both = 0;
  for (uint64_t key = 0; key < 4000; ++key) {
    const bool right =
        apply("random_crop", image, {{"size", Sizes{1, 1}}}, key).data<uint8_t>()[0] == 2;
    const bool flip = apply("random_flip", image, {}, key).data<uint8_t>()[0] == 2;
    both += right && flip ? 1 : 0;
  }
  CHECK(std::abs(both - 1000) < 140);  // 5 deviations
}

TEST_CASE("to_float scales, and takes mean and deviation of each channel") {
  const Tensor image = Tensor::of<uint8_t>({0, 51, 255, 102}, {1, 2, 2});
  CHECK(same_bits(apply("to_float", image, {{"scale", 1.0}}),
                  Tensor::of<float>({0, 51, 255, 102}, {1, 2, 2})));
  CHECK(same_bits(apply("to_float", image, {}),
                  Tensor::of<float>({0, 51 * (1 / 255.0F), 1, 102 * (1 / 255.0F)}, {1, 2, 2})));
  CHECK(same_bits(
      apply("to_float", image, {{"scale", 1.0}, {"mean", Numbers{1, 3}}, {"std", Numbers{2, 4}}}),
      Tensor::of<float>({-0.5F, 12, 127, 24.75F}, {1, 2, 2})));
}

TEST_CASE("decode_image decodes a field of file bytes") {
  const Fields inputs = {{"encoded", {DType::u8, {-1}}}};
  const SourceArgs args = {{"field", std::string("encoded")}, {"size", Sizes{1, -1}}};
  const SourceStep step = bind_decode_image(inputs, args);
  CHECK(step.fields == Fields{{"encoded", {DType::u8, {1, -1, 3}}}});
  const auto decode = [&](const std::string& file) {
    const Record input = {Tensor::of(bytes_of(file), Shape{static_cast<int64_t>(file.size())})};
    const std::string place = "a: the record at byte 7";
    return step.map(SourceCall(inputs, input, 0, place))[0];
  };
  CHECK(same_bits(decode(png_file(2, 1, "abcdef")),
                  Tensor::of<uint8_t>({'a', 'b', 'c', 'd', 'e', 'f'}, {1, 2, 3})));
  check_error(
      Errc::bad_data, [&] { decode("GIF"); }, "a: the record at byte 7: expected a JPEG");
  check_error(
      Errc::bad_data, [&] { decode(png_file(1, 2, "abcdef")); },
      "a: the record at byte 7: the image is [2, 1, 3], the argument size says [1, -1, 3]");
}

TEST_CASE("arguments and images that do not fit are refused") {
  const Tensor image = counted(3, 4, 3);
  const auto refused = [&](const char* name, const SourceArgs& args) {
    return error_text(Errc::invalid_argument, [&] {
      apply(name, image, args, 0, Shape{-1, -1, 3});
    });
  };
  has(refused("resize", {{"size", Sizes{0, 4}}}), "resize wants a height and a width from 1 on");
  has(refused("resize", {}), "resize wants the argument size");
  has(refused("random_crop", {{"size", Sizes{1, 1}}, {"padding", int64_t{-1}}}),
      "from 0 on, got -1");
  has(refused("random_flip", {{"probability", 1.5}}), "a probability from 0 to 1, got 1.5");
  has(refused("to_float", {{"mean", Numbers{1, 2}}}),
      "to_float wants one number as mean, or one for each of 3 channels, got 2");
  has(refused("to_float", {{"std", Numbers{0}}}), "a std that is not 0");
  has(refused("to_float", {{"field", std::string("label")}}),
      "to_float wants u8[-1, -1, -1], the field label is i64[]");
  has(refused("random_flip", {{"field", std::string("x")}}),
      "random_flip finds no field x; the records have label, image");
  check_error(
      Errc::bad_data,
      [&] {
        apply("random_crop", image, {{"size", Sizes{4, 4}}});
      },
      "a.tar: cat/1.png: the image [3, 4, 3] with a padding of 0 is smaller than the crop");
  check_error(
      Errc::bad_data,
      [&] {
        apply("resize", counted(0, 4, 3), {{"size", Sizes{4, 4}}});
      },
      "the image [0, 4, 3] has no pixels");
}

}  // namespace
}  // namespace troupe

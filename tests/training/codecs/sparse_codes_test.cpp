// The codecs topk and sign: which elements travel, codes of slices, and codes that are none.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/refusal.hpp"
#include "training/codecs/codec.hpp"

namespace troupe {
namespace {

const MakeTensor make = [](DType dtype, const Shape& shape) { return Tensor::empty(dtype, shape); };

Tensor waves(int64_t n) {
  Tensor out = Tensor::empty(DType::f32, Shape{n});
  for (int64_t i = 0; i < n; ++i)
    out.mutable_data<float>()[i] =
        std::sin(static_cast<float>(i * i % 1009)) * std::pow(10.0f, static_cast<float>(i % 7 - 3));
  return out;
}

Tensor decoded(Codec::Kind kind, const Tensor& codes, int64_t begin, int64_t end) {
  Tensor out = Tensor::empty(DType::f32, Shape{end - begin});
  REQUIRE(are_codes(kind, codes, begin, end));
  decode(kind, codes, begin, end, out);
  return out;
}

TEST_CASE("topk sends the largest elements unchanged, and no others") {
  for (const int64_t n : {1, 2, 255, 257, 5000})
    for (const double fraction : {1e-9, 0.01, 0.3, 1.0}) {
      CAPTURE(n);
      CAPTURE(fraction);
      const Tensor x = waves(n);
      const auto wanted =
          static_cast<size_t>(std::max(1.0, std::ceil(fraction * static_cast<double>(n))));
      const Tensor back = decoded(Codec::topk, encode({Codec::topk, fraction}, x, {}, make), 0, n);
      std::vector<float> sent, kept;
      for (int64_t i = 0; i < n; ++i) {
        const float was = x.data<float>()[i], is = back.data<float>()[i];
        if (is != 0) CHECK(is == was);
        if (was != 0) (is != 0 ? sent : kept).push_back(std::abs(was));
      }
      CHECK(sent.size() == std::min(wanted, sent.size() + kept.size()));
      if (!kept.empty())
        CHECK(*std::min_element(sent.begin(), sent.end()) >=
              *std::max_element(kept.begin(), kept.end()));
    }
}

TEST_CASE("topk: of equal elements the first ones travel, and zeros never do") {
  const Tensor equal = Tensor::of<float>({2, -2, 2, 2}, Shape{4});
  const auto half = [](const Tensor& x) {
    return decoded(Codec::topk, encode({Codec::topk, 0.5}, x, {}, make), 0, x.size());
  };
  CHECK(same_bits(half(equal), Tensor::of<float>({2, -2, 0, 0}, Shape{4})));
  const Tensor zeros = Tensor::zeros(DType::f32, Shape{100});
  const Tensor codes = encode({Codec::topk, 0.5}, zeros, {}, make);
  CHECK(codes.size() == 4);
  CHECK(same_bits(decoded(Codec::topk, codes, 0, 100), zeros));
}

TEST_CASE("sign sends the sign of each element and the mean magnitude of its block") {
  for (const int64_t n : {1, 7, 8, 255, 256, 257, 1000}) {
    const Tensor x = waves(n);
    const Tensor codes = encode({Codec::sign}, x, {}, make);
    CHECK(codes.size() == (n + 255) / 256 * 4 + (n + 7) / 8);
    const Tensor back = decoded(Codec::sign, codes, 0, n);
    for (int64_t block = 0; block < n; block += kSignBlock) {
      const int64_t end = std::min(n, block + kSignBlock);
      double sum = 0;
      for (int64_t i = block; i < end; ++i)
        sum += std::abs(static_cast<double>(x.data<float>()[i]));
      for (int64_t i = block; i < end; ++i) {
        const float is = back.data<float>()[i];
        CHECK(std::signbit(is) == std::signbit(x.data<float>()[i]));
        CHECK(std::abs(is) == doctest::Approx(sum / static_cast<double>(end - block)));
      }
    }
  }
}

TEST_CASE("the codes of slices decode to the elements that those of the whole do") {
  const Tensor x = waves(5000);
  for (const Codec codec : {Codec{Codec::topk, 0.02}, Codec{Codec::sign}}) {
    const Tensor codes = encode(codec, x, {}, make);
    const Tensor whole = decoded(codec.kind, codes, 0, 5000);
    const std::vector<int64_t> cuts = {0, 3, 16, 250, 256, 1000, 1040, 1040, 4999, 5000};
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      const Tensor part = codes_of_slice(codec.kind, codes, 5000, cuts[i], cuts[i + 1]);
      CHECK(same_bits(decoded(codec.kind, part, cuts[i], cuts[i + 1]),
                      whole.rows(cuts[i], cuts[i + 1])));
    }
  }
}

TEST_CASE("a gradient with a number that is not finite has no codes") {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    Tensor x = waves(700);
    x.mutable_data<float>()[699] = bad;
    CHECK_FALSE(encode({Codec::topk, 0.01}, x, {}, make).defined());
    CHECK_FALSE(encode({Codec::sign}, x, {}, make).defined());
  }
}

// The codes of two elements, at these places.
Tensor two(uint32_t count, uint32_t first, uint32_t second) {
  Tensor out = Tensor::zeros(DType::u8, Shape{20});
  const uint32_t words[] = {count, first, second};
  std::memcpy(out.mutable_raw(), &words[0], sizeof words);
  return out;
}

TEST_CASE("codes of topk that lead out of the slice, or twice to an element, are none") {
  CHECK(are_codes(Codec::topk, two(2, 3, 9), 0, 10));
  CHECK_FALSE(are_codes(Codec::topk, two(2, 3, 10), 0, 10));
  CHECK_FALSE(are_codes(Codec::topk, two(2, 3, 3), 0, 10));
  CHECK_FALSE(are_codes(Codec::topk, two(2, 4, 3), 0, 10));
  CHECK_FALSE(are_codes(Codec::topk, two(3, 3, 4), 0, 10));
  CHECK_FALSE(are_codes(Codec::topk, two(0xffffffff, 3, 4), 0, 10));
  CHECK_FALSE(are_codes(Codec::topk, Tensor::zeros(DType::u8, Shape{3}), 0, 10));
  CHECK_FALSE(are_codes(Codec::sign, Tensor::zeros(DType::u8, Shape{5}), 0, 9));
}

TEST_CASE("topk wants a fraction") {
  CHECK(codec_from_string("topk:0.01") == Codec{Codec::topk, 0.01});
  CHECK(to_string(Codec{Codec::topk, 0.01}) == "topk:0.01");
  for (const char* const text : {"topk:", "topk:0", "topk:-1", "topk:1.5", "topk:nan", "topk:0.1x"})
    has(refusal_of([&] { codec_from_string(text); }).text,
        "wants a fraction above 0 and at most 1");
  has(refusal_of([] { codec_from_string("topk"); }).text, "topk:F with a fraction F");
}

}  // namespace
}  // namespace troupe

// Codecs: bounds on what they change, equal codes for equal arguments, and codes of slices.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/refusal.hpp"
#include "training/codecs/codec.hpp"

namespace troupe {
namespace {

const MakeTensor make = [](DType dtype, const Shape& shape) { return Tensor::empty(dtype, shape); };
const std::vector<int64_t> kSizes = {0, 1, 2, 255, 256, 257, 511, 512, 513, 1025, 5000};

// Magnitudes from 1e-6 to 1e3, with both signs and zeros.
template <class T>
Tensor numbers(int64_t n, T scale = 1) {
  Tensor out = Tensor::empty(dtype_of<T>, Shape{n});
  T* const to = out.mutable_data<T>();
  for (int64_t i = 0; i < n; ++i) {
    const double size = std::pow(10.0, static_cast<double>(i * 7 % 10) - 6.0);
    to[i] = i % 11 == 0 ? T{0} : static_cast<T>(std::sin(static_cast<double>(i)) * size) * scale;
  }
  return out;
}

Tensor decoded(Codec::Kind kind, const Tensor& codes, int64_t begin, int64_t end, DType dtype) {
  Tensor out = Tensor::empty(dtype, Shape{end - begin});
  REQUIRE(are_codes(kind, codes, begin, end));
  decode(kind, codes, begin, end, out);
  return out;
}

Tensor there_and_back(Codec::Kind kind, const Tensor& values, const GradientKey& key = {}) {
  const Tensor codes = encode({kind}, values, key, make);
  REQUIRE(codes.defined());
  return decoded(kind, codes, 0, values.size(), values.dtype());
}

// The largest error of each element, by codec.
template <class T>
double bound_of(Codec::Kind kind, const T* values, int64_t n, int64_t i) {
  const double size = std::abs(static_cast<double>(values[i]));
  if (kind == Codec::bf16) return size * 0x1p-8;
  if (kind == Codec::f16) return std::max(size * 0x1p-11, 0x1p-25);
  double largest = 0;
  const int64_t first = i / kInt8Block * kInt8Block;
  for (int64_t j = first; j < std::min(n, first + kInt8Block); ++j)
    largest = std::max(largest, std::abs(static_cast<double>(values[j])));
  return largest / 127 * (1 + 1e-5);
}

template <class T>
void check_bounds(Codec::Kind kind, const Tensor& values) {
  const Tensor back = there_and_back(kind, values);
  for (int64_t i = 0; i < values.size(); ++i) {
    CAPTURE(i);
    const T was = values.data<T>()[i], is = back.data<T>()[i];
    CHECK(std::abs(static_cast<double>(is) - static_cast<double>(was)) <=
          bound_of(kind, values.data<T>(), values.size(), i));
  }
}

TEST_CASE("a codec changes an element by at most its bound, for all sizes and both dtypes") {
  for (const Codec::Kind kind : {Codec::bf16, Codec::f16, Codec::int8})
    for (const int64_t n : kSizes) {
      CAPTURE(to_string(Codec{kind}));
      CAPTURE(n);
      check_bounds<float>(kind, numbers<float>(n));
      check_bounds<double>(kind, numbers<double>(n));
    }
}

TEST_CASE("zeros stay zeros, with int8 whatever number is drawn") {
  const Tensor zeros = Tensor::zeros(DType::f32, Shape{100'000});
  for (const Codec::Kind kind : {Codec::bf16, Codec::f16, Codec::int8})
    CHECK(same_bits(there_and_back(kind, zeros), zeros));
  Tensor one = Tensor::zeros(DType::f32, Shape{100'000});
  for (int64_t i = 0; i < one.size(); i += kInt8Block) one.mutable_data<float>()[i] = 1;
  CHECK(same_bits(there_and_back(Codec::int8, one), one));
}

TEST_CASE("huge numbers become the largest one, and denormal ones stay small") {
  const float huge = std::numeric_limits<float>::max(), tiny = 1e-44f;
  const Tensor x = Tensor::of<float>({huge, -huge, 70000, tiny, -tiny}, Shape{5});
  const Tensor half = there_and_back(Codec::f16, x), brain = there_and_back(Codec::bf16, x);
  CHECK(half.values<float>()[0] == 65504);
  CHECK(half.values<float>()[1] == -65504);
  CHECK(half.values<float>()[2] == 65504);
  CHECK(half.values<float>()[3] == 0);
  CHECK(brain.values<float>()[0] == 0x1.fep127f);
  CHECK(brain.values<float>()[1] == -0x1.fep127f);
  CHECK(std::abs(brain.values<float>()[3]) <= 1e-40f);
  CHECK(there_and_back(Codec::int8, x).values<float>()[0] == doctest::Approx(huge));
  const Tensor small = Tensor::of<float>({tiny, -1e-40f, 1e-31f}, Shape{3});
  CHECK(same_bits(there_and_back(Codec::int8, small), Tensor::zeros(DType::f32, Shape{3})));
  const Tensor wide = Tensor::of<double>({1e300, -1e300}, Shape{2});
  CHECK(there_and_back(Codec::f16, wide).values<double>()[0] == 65504);
  CHECK_FALSE(encode({Codec::int8}, wide, {}, make).defined());  // no f32 scale: as it is
}

TEST_CASE("a number that is not finite stays at its place, or the gradient travels as it is") {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    Tensor x = numbers<float>(700);
    x.mutable_data<float>()[600] = bad;
    for (const Codec::Kind kind : {Codec::bf16, Codec::f16}) {
      const Tensor back = there_and_back(kind, x);
      for (int64_t i = 0; i < x.size(); ++i)
        CHECK(std::isfinite(back.values<float>()[static_cast<size_t>(i)]) == (i != 600));
    }
    CHECK_FALSE(encode({Codec::int8}, x, {}, make).defined());
  }
}

TEST_CASE("int8 rounds by seed, parameter, replica and step, and the mean over steps is right") {
  const Tensor x = numbers<float>(1000);
  const auto codes = [&](const GradientKey& key) { return encode({Codec::int8}, x, key, make); };
  const Tensor first = codes({1, "w", 2, 3});
  CHECK(same_bits(first, codes({1, "w", 2, 3})));
  for (const GradientKey& other : {GradientKey{2, "w", 2, 3}, GradientKey{1, "v", 2, 3},
                                   GradientKey{1, "w", 1, 3}, GradientKey{1, "w", 2, 4}})
    CHECK_FALSE(same_bits(first, codes(other)));

  constexpr int kSteps = 4000;
  const Tensor y = Tensor::of<float>({127, 0.25f, -3.7f, 0.01f, -126.5f}, Shape{5});
  std::vector<double> sums(5);
  for (int step = 0; step < kSteps; ++step) {
    const Tensor back = there_and_back(Codec::int8, y, {7, "w", 0, step});
    for (size_t i = 0; i < 5; ++i) sums[i] += static_cast<double>(back.values<float>()[i]);
  }
  // A code is off by at most one; the mean of 4000 has a standard deviation below 0.008.
  for (size_t i = 0; i < 5; ++i)
    CHECK(std::abs(sums[i] / kSteps - static_cast<double>(y.values<float>()[i])) < 0.04);
}

TEST_CASE("the codes of slices decode to the elements that those of the whole do") {
  const Tensor x = numbers<float>(5000);
  for (const Codec::Kind kind : {Codec::bf16, Codec::f16, Codec::int8}) {
    const Tensor codes = encode({kind}, x, {3, "w", 1, 5}, make);
    const Tensor whole = decoded(kind, codes, 0, 5000, DType::f32);
    const std::vector<int64_t> cuts = {0, 16, 250, 256, 1000, 1040, 1040, 4999, 5000};
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      const int64_t begin = cuts[i], end = cuts[i + 1];
      const Tensor part = codes_of_slice(kind, codes, 5000, begin, end);
      CHECK(same_bits(decoded(kind, part, begin, end, DType::f32), whole.rows(begin, end)));
    }
  }
}

TEST_CASE("codes of other sizes, dtypes and codecs are none") {
  const Tensor x = numbers<float>(600);
  for (const Codec::Kind kind : {Codec::bf16, Codec::f16, Codec::int8}) {
    const Tensor codes = encode({kind}, x, {}, make);
    CHECK(are_codes(kind, codes, 0, 600));
    CHECK_FALSE(are_codes(kind, codes, 0, 601));
    CHECK_FALSE(are_codes(kind, codes, 0, 0));
    CHECK_FALSE(are_codes(kind, x, 0, 600));
    CHECK_FALSE(are_codes(kind, {}, 0, 600));
  }
  CHECK_FALSE(are_codes(Codec::none, x, 0, 600));
}

TEST_CASE("codecs have names") {
  for (int kind = 0; kind < kCodecKinds; ++kind) {
    const Codec codec{static_cast<Codec::Kind>(kind), kind == Codec::topk ? 0.5 : 0};
    CHECK(codec_from_string(to_string(codec)) == codec);
  }
  has(refusal_of([] { codec_from_string("fp8"); }).text, "\"fp8\" is no codec");
}

}  // namespace
}  // namespace troupe

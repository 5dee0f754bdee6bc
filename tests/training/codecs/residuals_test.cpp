// Residuals: nothing is lost between steps, steps are done again, and losses are refused.
#include <cmath>

#include <doctest/doctest.h>

#include "training/codecs/residuals.hpp"

namespace troupe {
namespace {

const MakeTensor make = [](DType dtype, const Shape& shape) { return Tensor::empty(dtype, shape); };
constexpr Codec kHalf{Codec::topk, 0.5};
const FlushPlan plan{.begin = 0, .every = 3, .steps = 8};

Tensor of(std::initializer_list<float> values) {
  return Tensor::of<float>(values, Shape{static_cast<int64_t>(values.size())});
}

struct Replica {
  Residuals residuals;
  uint64_t epoch = 1;
  Residuals::Coded code(int64_t step, const Tensor& gradient, const Codec& codec = kHalf,
                        const FlushPlan& by = plan) {
    return residuals.code(epoch, codec, gradient, {1, "w", 0, step}, by, make);
  }
  // The elements that a shard adds up.
  Tensor pushed(int64_t step, const Tensor& gradient, const Codec& codec = kHalf) {
    const Residuals::Coded coded = code(step, gradient, codec);
    REQUIRE(coded.refused == "");
    if (coded.kind == Codec::none) return coded.gradient;
    Tensor out = Tensor::empty(DType::f32, gradient.shape());
    decode(coded.kind, coded.gradient, 0, out.size(), out);
    return out;
  }
};

TEST_CASE("what a step leaves is pushed by a later one, and all of it before a checkpoint") {
  Replica r;
  CHECK(same_bits(r.pushed(0, of({4, 3, 2, 1})), of({4, 3, 0, 0})));
  CHECK(same_bits(r.pushed(1, of({1, 1, 1, 3})), of({0, 0, 3, 4})));
  CHECK(same_bits(r.pushed(2, of({0, 0, 5, 0})), of({1, 1, 5, 0})));  // step 3 is checkpointed
  CHECK(same_bits(r.pushed(3, of({1, 2, 3, 4})), of({0, 0, 3, 4})));
}

TEST_CASE("the sum of all pushes is that of all gradients, with both codecs") {
  for (const Codec codec : {Codec{Codec::topk, 0.1}, Codec{Codec::sign}}) {
    Replica r;
    constexpr int64_t kSize = 700;
    std::vector<double> wanted(kSize), got(kSize);
    for (int64_t step = 0; step < plan.steps; ++step) {
      Tensor g = Tensor::empty(DType::f32, Shape{kSize});
      for (int64_t i = 0; i < kSize; ++i)
        g.mutable_data<float>()[i] = std::sin(static_cast<float>(i * 3 + step * 100));
      const Tensor p = r.pushed(step, g, codec);
      for (size_t i = 0; i < kSize; ++i) {
        wanted[i] += static_cast<double>(g.values<float>()[i]);
        got[i] += static_cast<double>(p.values<float>()[i]);
      }
    }
    for (size_t i = 0; i < kSize; ++i) CHECK(std::abs(got[i] - wanted[i]) < 1e-5);
  }
}

TEST_CASE("a step that is done again pushes the same") {
  Replica r;
  r.pushed(0, of({4, 3, 2, 1}));
  const Tensor once = r.pushed(1, of({1, 1, 1, 3}));
  CHECK(same_bits(r.pushed(1, of({1, 1, 1, 3})), once));
  CHECK(same_bits(r.pushed(2, of({0, 0, 0, 0})), of({1, 1, 0, 0})));
  CHECK(same_bits(r.pushed(2, of({0, 0, 0, 0})), of({1, 1, 0, 0})));
}

TEST_CASE("a new process is refused in mid-interval, and begins where no residual is") {
  for (const int64_t step : {1, 2, 4, 5, 7}) {
    const Residuals::Coded no = Replica().code(step, of({1, 2, 3, 4}));
    CHECK_FALSE(no.gradient.defined());
    CHECK(no.refused.find("replica 0 before step") != std::string::npos);
    CHECK(no.refused.find("lost with its process") != std::string::npos);
  }
  for (const int64_t step : {0, 3, 6}) CHECK(Replica().code(step, of({1, 2, 3, 4})).refused == "");
  const FlushPlan late{.begin = 4, .every = 0, .steps = 8};
  CHECK(Replica().code(4, of({1, 2, 3, 4}), kHalf, late).refused == "");
  CHECK(Replica().code(5, of({1, 2, 3, 4}), kHalf, late).refused != "");
}

TEST_CASE("an epoch begins without residuals, and pushes of the one before change nothing") {
  Replica r;
  r.pushed(0, of({4, 3, 2, 1}));
  r.epoch = 2;
  CHECK(same_bits(r.pushed(0, of({0, 0, 1, 1})), of({0, 0, 1, 1})));
  r.epoch = 1;
  CHECK(r.code(1, of({1, 1, 1, 1})).refused != "");
  r.epoch = 2;
  CHECK(same_bits(r.pushed(1, of({5, 4, 0, 0})), of({5, 4, 0, 0})));
}

TEST_CASE("a parameter that is not pushed in each step is refused") {
  Replica r;
  r.pushed(0, of({4, 3, 2, 1}));
  const Residuals::Coded coded = r.code(2, of({1, 1, 1, 1}));
  CHECK(coded.refused.find("wants a gradient in each step") != std::string::npos);
  CHECK(!coded.lost);  // it helps nothing to do the step again
  CHECK(Replica().code(2, of({1, 1, 1, 1})).lost);
}

TEST_CASE("a sum that is too large for codes travels as it is, with the residual") {
  Replica r;
  r.pushed(0, of({3e38F, 2e38F, 1e38F, 1}));
  const Residuals::Coded coded = r.code(1, of({1, 1, 3e38F, 1}));
  CHECK(coded.kind == Codec::none);
  CHECK(coded.gradient.values<float>()[2] == INFINITY);  // which the shard names
}

TEST_CASE("a gradient with a NaN travels as it is") {
  Replica r;
  r.pushed(0, of({4, 3, 2, 1}));
  const Residuals::Coded coded = r.code(1, of({1, NAN, 1, 1}));
  CHECK(coded.kind == Codec::none);
  CHECK(std::isnan(coded.gradient.values<float>()[1]));
}

}  // namespace
}  // namespace troupe

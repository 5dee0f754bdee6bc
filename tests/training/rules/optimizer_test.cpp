// Optimizers against the published formulas, step by step in double; their needs and their
// refusals. optimizer_trajectory_test.cpp has the values of all kinds.

#include <algorithm>
#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include "tests/support/optimizers.hpp"
#include "training/shards/shard.hpp"
#include "training/rules/update.hpp"

namespace troupe {
namespace {

constexpr int64_t kElements = 37;  // not a multiple of any vector length

double gradient_of(int64_t t, int64_t i) {
  return std::sin(0.7 * static_cast<double>(t) + static_cast<double>(i));
}
double value_of(int64_t i) { return 0.1 * static_cast<double>(i) - 1; }

template <class T>
struct Run {
  std::vector<T> w, a = std::vector<T>(kElements), b = a, c = a;
  OptimizerArrays<T> from(const std::vector<T>& g, int64_t i) {
    return {g.data() + i, w.data() + i, {a.data() + i, b.data() + i, c.data() + i}};
  }
};

// Updates in pieces of at most `piece` elements.
template <class T>
Run<T> run(const Optimizer& optimizer, int64_t updates, int64_t piece = kElements) {
  Run<T> r;
  for (int64_t i = 0; i < kElements; ++i) r.w.push_back(static_cast<T>(value_of(i)));
  for (int64_t t = 1; t <= updates; ++t) {
    std::vector<T> g;
    for (int64_t i = 0; i < kElements; ++i) g.push_back(static_cast<T>(gradient_of(t, i)));
    for (int64_t i = 0; i < kElements; i += piece)
      update_once<T>(optimizer, t, std::min(piece, kElements - i), r.from(g, i));
  }
  return r;
}

TEST_CASE("sgd subtracts the gradient times the learning rate") {
  const Run<double> r = run<double>({.kind = "sgd", .learning_rate = 0.1}, 3);
  for (int64_t i = 0; i < kElements; ++i) {
    double w = value_of(i);
    for (int64_t t = 1; t <= 3; ++t) w -= 0.1 * gradient_of(t, i);
    CHECK(r.w[static_cast<size_t>(i)] == doctest::Approx(w).epsilon(1e-14));
  }
}

TEST_CASE("momentum accumulates velocity as Polyak wrote it") {
  const Run<double> r = run<double>({.kind = "momentum", .learning_rate = 0.1, .momentum = 0.8}, 5);
  for (int64_t i = 0; i < kElements; ++i) {
    double w = value_of(i), v = 0;
    for (int64_t t = 1; t <= 5; ++t) {
      v = 0.8 * v + gradient_of(t, i);
      w -= 0.1 * v;
    }
    CHECK(r.w[static_cast<size_t>(i)] == doctest::Approx(w).epsilon(1e-14));
    CHECK(r.a[static_cast<size_t>(i)] == doctest::Approx(v).epsilon(1e-14));
  }
}

TEST_CASE("adam follows algorithm 1 of Kingma and Ba, bias correction included") {
  const Optimizer adam{
      .kind = "adam", .learning_rate = 0.01, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-3};
  const Run<double> r = run<double>(adam, 10);
  const Run<float> single = run<float>(adam, 10);
  for (int64_t i = 0; i < kElements; ++i) {
    double w = value_of(i), m = 0, v = 0;
    for (int64_t t = 1; t <= 10; ++t) {
      const double g = gradient_of(t, i);
      m = 0.9 * m + 0.1 * g;
      v = 0.99 * v + 0.01 * g * g;
      const double m_hat = m / (1 - std::pow(0.9, static_cast<double>(t)));
      const double v_hat = v / (1 - std::pow(0.99, static_cast<double>(t)));
      w -= 0.01 * m_hat / (std::sqrt(v_hat) + 1e-3);
    }
    CHECK(r.w[static_cast<size_t>(i)] == doctest::Approx(w).epsilon(1e-12));
    CHECK(std::abs(single.w[static_cast<size_t>(i)] - w) < 2e-6);
  }
}

template <class T>
void check_pieces(const Optimizer& optimizer) {
  const Run<T> whole = run<T>(optimizer, 6);
  for (int64_t piece : {1, 5, 16}) {
    const Run<T> pieces = run<T>(optimizer, 6, piece);
    CHECK(whole.w == pieces.w);
    CHECK(whole.a == pieces.a);
    CHECK(whole.b == pieces.b);
    CHECK(whole.c == pieces.c);
  }
}

TEST_CASE("an update in pieces has the bits of an update in one") {
  for (const Optimizer& optimizer : every_optimizer(0.03)) {
    if (wants_whole_parameter(optimizer)) continue;
    CAPTURE(describe(optimizer));
    check_pieces<float>(optimizer);
    check_pieces<double>(optimizer);
  }
}

TEST_CASE("replicas are named after the formula's letters, and only those that are used") {
  using Names = std::vector<std::string>;
  CHECK(optimizer_accumulators(sgd(1)).empty());
  CHECK(optimizer_accumulators(nesterov(1)) == Names{"momentum"});
  CHECK(optimizer_accumulators(rmsprop()) == Names{"rmsprop_a"});
  CHECK(optimizer_accumulators(rmsprop(0.1, 0.9, 0.5)) == Names{"rmsprop_a", "rmsprop_v"});
  CHECK(optimizer_accumulators(rmsprop(0.1, 0.9, 0.5, 1e-7, true)) ==
        Names{"rmsprop_a", "rmsprop_m", "rmsprop_v"});
  CHECK_THROWS_WITH_AS(optimizer_accumulators({.kind = "lion"}),
                       doctest::Contains("there is no optimizer 'lion'"), Error);
}

TEST_CASE("where every gradient is zero, only weight decay and FTRL move a weight") {
  for (const Optimizer& optimizer : every_optimizer()) {
    CAPTURE(describe(optimizer));
    const std::vector<float> g(kElements);
    Run<float> r;
    r.w.assign(kElements, 0.5F);
    for (int64_t t = 1; t <= 3; ++t) update_once<float>(optimizer, t, kElements, r.from(g, 0));
    const float last = r.w.back();
    if (optimizer.kind == "ftrl")
      CHECK(last == 0);
    else if (optimizer.kind == "lamb")  // by its rate, 0.1, for any decay
      CHECK(last == doctest::Approx(0.5 * 0.9 * 0.9 * 0.9));
    else if (optimizer.kind == "adamw")
      CHECK((last > 0.4F && last < 0.5F));
    else
      CHECK(last == 0.5F);
    CHECK(r.w == std::vector<float>(kElements, last));
  }
}

TEST_CASE("a constant gradient leaves centered RMSProp without a variance, and finite") {
  Run<float> r;
  r.w.assign(kElements, 0);
  const std::vector<float> g(kElements, 0.1F);
  const Optimizer optimizer = rmsprop(0.001, 0.9, 0, 1e-7, true);
  for (int64_t t = 1; t <= 500; ++t) update_once<float>(optimizer, t, kElements, r.from(g, 0));
  CHECK((std::isfinite(r.w[0]) && r.w[0] < 0));
}

TEST_CASE("LAMB's step is as long as its rate times the norm of the parameter, and 1 for no norm") {
  const Optimizer optimizer = lamb(0.25, 0);
  const auto norm = [](const std::vector<double>& x) {
    double sum = 0;
    for (double v : x) sum += v * v;
    return std::sqrt(sum);
  };
  Run<double> r;
  std::vector<double> g;
  for (int64_t i = 0; i < kElements; ++i) {
    r.w.push_back(value_of(i));
    g.push_back(gradient_of(1, i));
  }
  std::vector<double> moved = r.w;
  update_once<double>(optimizer, 1, kElements, r.from(g, 0));
  for (size_t i = 0; i < moved.size(); ++i) moved[i] -= r.w[i];
  std::vector<double> first;
  for (int64_t i = 0; i < kElements; ++i) first.push_back(value_of(i));
  CHECK(norm(moved) == doctest::Approx(0.25 * norm(first)).epsilon(1e-12));
  Run<double> zeros;  // like initial biases: the step of Adam
  zeros.w.assign(kElements, 0);
  update_once<double>(optimizer, 1, kElements, zeros.from(g, 0));
  CHECK(std::abs(zeros.w[0]) == doctest::Approx(0.25).epsilon(1e-4));
}

TEST_CASE("an update of many blocks takes LAMB's norms of all of them") {
  constexpr int64_t kMany = 3001;
  const Optimizer optimizer = lamb(0.1, 0.2);
  SliceValues state{.values = Tensor::empty(DType::f64, {kMany}),
                    .optimizer_accumulators = zero_accumulators(optimizer, DType::f64, kMany)};
  std::vector<double> w, m(kMany), v(kMany);
  for (int64_t i = 0; i < kMany; ++i) w.push_back(value_of(i % 50));
  std::copy(w.begin(), w.end(), state.values.mutable_data<double>());
  for (int64_t t = 1; t <= 3; ++t) {
    std::vector<double> g;
    for (int64_t i = 0; i < kMany; ++i) g.push_back(gradient_of(t, i));
    const Contribution pushed{.replica = 0, .step = t, .gradient = Tensor::of<double>(g, {kMany})};
    CHECK(apply_mean(optimizer, std::span(&pushed, 1), t == 2, state) == (t != 2));
    update_once<double>(optimizer, t, kMany, {g.data(), w.data(), {m.data(), v.data()}});
    for (int64_t i = 0; i < kMany; ++i)
      REQUIRE(state.values.data<double>()[i] ==
              doctest::Approx(w[static_cast<size_t>(i)]).epsilon(1e-12));
  }
  CHECK(state.version == 3);
}

TEST_CASE("a parameter under LAMB is one slice, however large") {
  const auto slices = [](const Optimizer& optimizer) {
    return split_parameters({{"w", DType::f32, {1000, 1000}, optimizer}}, 4);
  };
  CHECK(slices(adam()).size() == 4);
  REQUIRE(slices(lamb()).size() == 1);
  Slice part = slices(lamb())[0];
  part.size = 10;
  CHECK_THROWS_WITH_AS(Shard({.slices = {part}}),
                       "w[0:10] is a part of a parameter, and lamb wants it whole", Error);
}

}  // namespace
}  // namespace troupe

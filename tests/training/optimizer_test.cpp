// Optimizers against the published formulas, step by step in double.
#include "training/optimizer.hpp"

#include <cmath>
#include <vector>

#include <doctest/doctest.h>

namespace troupe {
namespace {

constexpr int64_t kElements = 37;  // not a multiple of any vector length

double gradient_of(int64_t t, int64_t i) {
  return std::sin(0.7 * static_cast<double>(t) + static_cast<double>(i));
}
double value_of(int64_t i) { return 0.1 * static_cast<double>(i) - 1; }

template <class T>
struct Run {
  std::vector<T> w, a = std::vector<T>(kElements), b = std::vector<T>(kElements);
};

template <class T>
Run<T> run(const Optimizer& optimizer, int64_t updates) {
  Run<T> r;
  for (int64_t i = 0; i < kElements; ++i) r.w.push_back(static_cast<T>(value_of(i)));
  for (int64_t t = 1; t <= updates; ++t) {
    std::vector<T> g;
    for (int64_t i = 0; i < kElements; ++i) g.push_back(static_cast<T>(gradient_of(t, i)));
    apply_optimizer<T>(optimizer, t, kElements, {g.data(), r.w.data(), {r.a.data(), r.b.data()}});
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

TEST_CASE("an update in pieces has the bits of an update in one") {
  for (const char* kind : {"sgd", "momentum", "adam"}) {
    CAPTURE(kind);
    const Optimizer optimizer{.kind = kind, .learning_rate = 0.03};
    const Run<float> whole = run<float>(optimizer, 4);
    Run<float> pieces;
    for (int64_t i = 0; i < kElements; ++i) pieces.w.push_back(static_cast<float>(value_of(i)));
    for (int64_t t = 1; t <= 4; ++t) {
      std::vector<float> g;
      for (int64_t i = 0; i < kElements; ++i) g.push_back(static_cast<float>(gradient_of(t, i)));
      for (int64_t begin = 0; begin < kElements; begin += 5)
        apply_optimizer<float>(optimizer, t, std::min<int64_t>(5, kElements - begin),
                               {g.data() + begin,
                                pieces.w.data() + begin,
                                {pieces.a.data() + begin, pieces.b.data() + begin}});
    }
    CHECK(whole.w == pieces.w);
    CHECK(whole.a == pieces.a);
    CHECK(whole.b == pieces.b);
  }
}

TEST_CASE("an optimizer that cannot work is refused with what is right") {
  struct Case {
    Optimizer optimizer;
    const char* message;
  };
  const std::vector<Case> cases = {
      {{.kind = "adagrad"}, "there is no optimizer 'adagrad'; known are sgd, momentum and adam"},
      {{.kind = "sgd", .learning_rate = NAN},
       "optimizer sgd has learning rate nan; wants a finite number"},
      {{.kind = "momentum", .momentum = 1},
       "optimizer momentum has momentum 1; wants a number in [0, 1)"},
      {{.kind = "adam", .beta1 = -0.1}, "optimizer adam has beta1 -0.1; wants a number in [0, 1)"},
      {{.kind = "adam", .beta2 = 1}, "optimizer adam has beta2 1; wants a number in [0, 1)"},
      {{.kind = "adam", .epsilon = 0}, "optimizer adam has epsilon 0; wants a positive number"},
  };
  for (const Case& c : cases) CHECK_THROWS_WITH(check_optimizer(c.optimizer), c.message);
  check_optimizer({.kind = "sgd", .learning_rate = 0});
}

}  // namespace
}  // namespace troupe

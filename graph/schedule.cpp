// Learning-rate schedules of troupe/optimizer.hpp: their factories, and the rate for each update.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "troupe/optimizer.hpp"

namespace troupe {
namespace {

double factor_at(const Schedule& s, int64_t t) {
  if (t <= s.warm_up) return static_cast<double>(t) / static_cast<double>(s.warm_up);
  const int64_t done = t - 1 - s.warm_up;
  const double part = static_cast<double>(done) / static_cast<double>(s.period);
  const double ended = std::min(part, 1.0);
  if (s.kind == "constant") return 1;
  if (s.kind == "step") {
    const int64_t periods = done / s.period;
    return std::pow(s.factor, static_cast<double>(periods));
  }
  if (s.kind == "piecewise") {
    const auto passed = std::upper_bound(s.boundaries.begin(), s.boundaries.end(), done);
    return std::pow(s.factor, static_cast<double>(passed - s.boundaries.begin()));
  }
  if (s.kind == "exponential") return std::pow(s.factor, part);
  if (s.kind == "polynomial") return s.end + (1 - s.end) * std::pow(1 - ended, s.power);
  TROUPE_CHECK(s.kind == "cosine", "schedule ", s.kind, " was not checked");
  return s.end + (1 - s.end) * (1 + std::cos(std::numbers::pi * ended)) / 2;
}

}  // namespace

Schedule constant_rate(int64_t warm_up) { return {.warm_up = warm_up}; }

Schedule step_decay(int64_t period, double factor, int64_t warm_up) {
  return {.kind = "step", .warm_up = warm_up, .period = period, .factor = factor};
}

Schedule piecewise_decay(std::vector<int64_t> boundaries, double factor, int64_t warm_up) {
  return {.kind = "piecewise",
          .warm_up = warm_up,
          .factor = factor,
          .boundaries = std::move(boundaries)};
}

Schedule exponential_decay(int64_t period, double factor, int64_t warm_up) {
  return {.kind = "exponential", .warm_up = warm_up, .period = period, .factor = factor};
}

Schedule polynomial_decay(int64_t period, double end, double power, int64_t warm_up) {
  return {.kind = "polynomial", .warm_up = warm_up, .period = period, .end = end, .power = power};
}

Schedule cosine_decay(int64_t period, double end, int64_t warm_up) {
  return {.kind = "cosine", .warm_up = warm_up, .period = period, .end = end};
}

double learning_rate_at(const Optimizer& optimizer, int64_t t) {
  TROUPE_CHECK(t >= 1, "updates count from 1, got ", t);
  return optimizer.learning_rate * factor_at(optimizer.schedule, t);
}

}  // namespace troupe

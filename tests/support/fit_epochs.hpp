// For tests of fit(): a metric with given values, and the comparison of two histories.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "troupe/training.hpp"

namespace troupe {

// Each evaluation returns the next of these values.
inline Metric scripted(std::vector<double> script, bool greater_is_better = true) {
  const auto next = std::make_shared<size_t>(0);
  return {"scripted", greater_is_better, [next, script = std::move(script)] {
            return Metric::Tally{[](const auto&, const Batch&) {},
                                 [=] { return script.at((*next)++); }};
          }};
}

inline void check_same(const std::vector<FitEpoch>& a, const std::vector<FitEpoch>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    CHECK(a[i].epoch == b[i].epoch);
    CHECK(a[i].step == b[i].step);
    CHECK(a[i].loss == b[i].loss);
    CHECK(a[i].scores == b[i].scores);
    CHECK(a[i].is_best == b[i].is_best);
    CHECK(a[i].rate_scale == b[i].rate_scale);
  }
}

}  // namespace troupe

// Assertions, one an element: f64 values against those of another computation, and gradients
// against central differences of a loss that a session computes.
#pragma once

#include <vector>

#include <doctest/doctest.h>

#include "troupe/tensor.hpp"

namespace troupe {

inline void check_close(const Tensor& got, const Tensor& want, double tolerance = 1e-9) {
  REQUIRE(got.shape() == want.shape());
  for (int64_t k = 0; k < got.size(); ++k)
    CHECK(got.data<double>()[k] == doctest::Approx(want.data<double>()[k]).epsilon(tolerance));
}

// `loss(values)` is f64; `got` holds its derivatives at `at`, also f64.
template <class F>
void check_slopes(const F& loss, const std::vector<Tensor>& at, const std::vector<Tensor>& got) {
  constexpr double kStep = 1e-6;
  for (size_t x = 0; x < at.size(); ++x)
    for (int64_t k = 0; k < at[x].size(); ++k) {
      double sides[2];
      for (int side : {0, 1}) {
        std::vector<Tensor> moved = at;
        moved[x] = Tensor::of<double>(at[x].values<double>(), at[x].shape());
        moved[x].mutable_data<double>()[k] += side ? kStep : -kStep;
        sides[side] = loss(moved);
      }
      CHECK(got[x].data<double>()[k] ==
            doctest::Approx((sides[1] - sides[0]) / (2 * kStep)).epsilon(1e-6));
    }
}

}  // namespace troupe

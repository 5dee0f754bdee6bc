// Optimizers: how a shard turns a gradient into new values, one fused loop each over f32 or f64. No
// state of its own: the shard owns the values and the optimizer's slots and says how many updates
// there were. The same inputs give the same bits on every machine and with any split of the values.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "troupe/tensor.hpp"
#include "troupe/train.hpp"

namespace troupe {

// The names of the tensors an optimizer keeps beside each value: {} for sgd, {"momentum"}, or
// {"adam_m", "adam_v"}. They begin at zero, in the values' dtype.
// Throws: Error(invalid_argument) for an unknown kind, listing the known ones.
const std::vector<std::string>& optimizer_slots(const Optimizer& optimizer);

// "adam(learning rate 0.001, beta1 0.9, beta2 0.999, epsilon 1e-08)": what counts for its kind.
std::string describe(const Optimizer& optimizer);

// Throws: Error(invalid_argument) for an unknown kind, or a setting that cannot work (a learning
// rate that is not finite, beta1 outside [0, 1), epsilon not above 0).
void check_optimizer(const Optimizer& optimizer);

inline constexpr int kOptimizerSlotsMax = 2;

// Addresses of n elements each; none overlap. Values and slots are read and written.
template <class T>
struct OptimizerArrays {
  const T* gradient = nullptr;
  T* values = nullptr;
  std::array<T*, kOptimizerSlotsMax> slots = {};
};

// Update number `t`, counted from 1, of n elements, by the formulas in troupe/train.hpp. Adam's
// bias correction is done in double once per call, everything per element in T. Requires:
// check_optimizer() passed; as many slots as optimizer_slots() names.
template <class T>
void apply_optimizer(const Optimizer& optimizer, int64_t t, int64_t n, const OptimizerArrays<T>& a);

extern template void apply_optimizer<float>(const Optimizer&, int64_t, int64_t,
                                            const OptimizerArrays<float>&);
extern template void apply_optimizer<double>(const Optimizer&, int64_t, int64_t,
                                             const OptimizerArrays<double>&);

}  // namespace troupe

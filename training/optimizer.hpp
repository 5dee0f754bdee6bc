// Optimizers: how a shard turns a gradient into new values, one fused loop each over f32 or f64. No
// state of its own: the shard owns the values and the optimizer's slots and says how many updates
// there were. The same inputs give the same bits on every machine and with any split of the values.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "troupe/train.hpp"

namespace troupe {

// The names of the tensors an optimizer keeps beside each value: {} for sgd, {"momentum"}, or
// {"adam_m", "adam_v"}. They begin at zero, in the values' dtype.
// Throws: Error(invalid_argument) for an unknown kind.
std::vector<std::string> optimizer_slots(const Optimizer& optimizer);

inline constexpr int kOptimizerSlotsMax = 3;

// Addresses of n elements each; none overlap. Values and slots are read and written.
template <class T>
struct OptimizerArrays {
  const T* gradient = nullptr;
  T* values = nullptr;
  std::array<T*, kOptimizerSlotsMax> slots = {};  // as optimizer_slots() names them
};

// What the loops read of the settings, in the values' dtype.
template <class T>
struct OptimizerTerms {
  T rate, momentum;
  T keep1, add1;  // beta1 or rho, and 1 - it
  T keep2, add2;  // beta2, and 1 - it
  T root;         // 1 / sqrt(1 - beta2^t)
  T epsilon, decay, beta, l1, l2;
};

// Update number `t`, counted from 1, by the formulas in troupe/train.hpp. What depends on t alone
// (schedule, bias correction) is worked out once, in double; everything per element in T. Call it
// for as many pieces as there are. Requires: check_optimizer() passed.
template <class T>
class OptimizerUpdate {
 public:
  OptimizerUpdate(const Optimizer& optimizer, int64_t t);
  void operator()(int64_t n, const OptimizerArrays<T>& arrays) const { loop_(terms_, n, arrays); }

 private:
  using Loop = void (*)(OptimizerTerms<T>, int64_t n, const OptimizerArrays<T>&);
  Loop loop_;
  OptimizerTerms<T> terms_;
};

extern template class OptimizerUpdate<float>;
extern template class OptimizerUpdate<double>;

}  // namespace troupe

// Optimizers: how a shard turns a gradient into new values, one fused loop each over f32 or f64. No
// state of its own: the shard owns the values and the optimizer's accumulators and says how many
// updates there were. The same inputs give the same bits on every machine and with any split of the
// values.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "troupe/train.hpp"

namespace troupe {

// The names of the tensors an optimizer keeps beside each value: {} for sgd, {"momentum"}, or
// {"adam_m", "adam_v"}. They begin at zero, in the values' dtype.
// Throws: Error(invalid_argument) for an unknown kind.
std::vector<std::string> optimizer_accumulators(const Optimizer& optimizer);

inline constexpr int kOptimizerAccumulatorsMax = 3;

// An update of this kind takes numbers of the whole parameter: it is one slice, and LambUpdate is
// for it. All others know nothing but the element.
inline bool wants_whole_parameter(const Optimizer& optimizer) { return optimizer.kind == "lamb"; }

// Addresses of n elements each. Accumulators are read and written. Values are read at `before` and
// written at `values`, which may be `before` or `gradient`; nothing else overlaps.
template <class T>
struct OptimizerArrays {
  const T* gradient = nullptr;
  T* values = nullptr;
  std::array<T*, kOptimizerAccumulatorsMax> accumulators =
      {};                     // as optimizer_accumulators() names them
  const T* before = nullptr;  // null: `values`
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
// for as many pieces as there are. Requires: check_optimizer() passed, and not
// wants_whole_parameter().
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

// The same for LAMB, in two passes over all pieces of the parameter: the first makes the moments
// and adds up the norms, in double and in the order of the pieces; the second moves the values. So
// the bits depend on how it is cut into pieces, not on who does it.
template <class T>
class LambUpdate {
 public:
  LambUpdate(const Optimizer& optimizer, int64_t t);
  void moments(int64_t n,
               const OptimizerArrays<T>& arrays);  // writes accumulators alone, reads `before`
  // Requires: moments() of all pieces. Writes values alone, and does not read gradients.
  void step(int64_t n, const OptimizerArrays<T>& arrays) const;

 private:
  OptimizerTerms<T> terms_;
  double rate_;
  double values_squared_ = 0, change_squared_ = 0;  // sums over all elements
};

extern template class OptimizerUpdate<float>;
extern template class OptimizerUpdate<double>;
extern template class LambUpdate<float>;
extern template class LambUpdate<double>;

}  // namespace troupe

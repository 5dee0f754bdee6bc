// Optimizers: how a shard turns a gradient into new values, one fused loop each over f32 or f64.
// They have no state of their own: the shard holds the values, the optimizer's accumulators and the
// number of updates. The same inputs give the same bits on every machine and with any split of the
// values.
// Owner: the caller, one per update. Thread: any; OptimizerUpdate takes disjoint pieces at once.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "troupe/optimizer.hpp"

namespace troupe {

// The names of the tensors an optimizer keeps beside each value: {} for sgd, {"momentum"}, or
// {"adam_m", "adam_v"}. They begin at zero, in the values' dtype.
// Throws: Error(invalid_argument) for an unknown kind.
std::vector<std::string> optimizer_accumulators(const Optimizer& optimizer);

inline constexpr int kOptimizerAccumulatorsMax = 3;

// True if an update reads numbers of the whole parameter. Such a parameter is one slice, and
// LambUpdate applies to it. All other updates are elementwise.
inline bool wants_whole_parameter(const Optimizer& optimizer) { return optimizer.kind == "lamb"; }

// Arrays of n elements each. Accumulators are read and written. Values are read at `before` and
// written at `values`, which may be `before` or `gradient`; nothing else overlaps.
template <class T>
struct OptimizerArrays {
  const T* gradient = nullptr;
  T* values = nullptr;
  std::array<T*, kOptimizerAccumulatorsMax> accumulators =
      {};                     // as optimizer_accumulators() names them
  const T* before = nullptr;  // null: `values`
};

// The settings that the loops read, in the values' dtype.
template <class T>
struct OptimizerTerms {
  T rate, momentum;
  T keep1, add1;  // beta1 or rho, and 1 - it
  T keep2, add2;  // beta2, and 1 - it
  T root;         // 1 / sqrt(1 - beta2^t)
  T epsilon, decay, beta, l1, l2;
};

// Update number `t`, counted from 1, by the formulas in troupe/optimizer.hpp, of accumulators that
// were zeros `age` updates ago, this one included. Terms that depend on t and age alone (schedule,
// bias correction) are computed once, in double; everything per element in T.
// Call it for any number of pieces. Requires: check_optimizer() passed, and not
// wants_whole_parameter().
template <class T>
class OptimizerUpdate {
 public:
  OptimizerUpdate(const Optimizer& optimizer, int64_t t, int64_t age);
  OptimizerUpdate(const Optimizer& optimizer, int64_t t) : OptimizerUpdate(optimizer, t, t) {}
  void operator()(int64_t n, const OptimizerArrays<T>& arrays) const { loop_(terms_, n, arrays); }

 private:
  using Loop = void (*)(OptimizerTerms<T>, int64_t n, const OptimizerArrays<T>&);
  Loop loop_;
  OptimizerTerms<T> terms_;
};

// The same for LAMB, in two passes over all pieces of the parameter: the first makes the moments
// and adds up the norms, in double and in the order of the pieces; the second moves the values. The
// bits depend on how the parameter is cut into pieces, not on the thread that does a piece.
template <class T>
class LambUpdate {
 public:
  LambUpdate(const Optimizer& optimizer, int64_t t, int64_t age);
  LambUpdate(const Optimizer& optimizer, int64_t t) : LambUpdate(optimizer, t, t) {}
  // Writes the accumulators alone, and reads values at `before`.
  void moments(int64_t n, const OptimizerArrays<T>& arrays);
  // Requires: moments() of all pieces. Writes the values alone, and reads no gradients.
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

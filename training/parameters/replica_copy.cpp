// The local updates of a replica, by the loops that shards use.
#include "training/parameters/replica_copy.hpp"

#include <utility>

namespace troupe {
namespace {

template <class T>
void subtract(const Tensor& before, const Tensor& now, Tensor& change) {
  const T* __restrict a = before.data<T>();
  const T* __restrict b = now.data<T>();
  T* __restrict to = change.mutable_data<T>();
  for (int64_t i = 0; i < now.size(); ++i) to[i] = a[i] - b[i];
}

}  // namespace

ReplicaCopy::ReplicaCopy(const Round& round, const Tensor& values, Optimizer optimizer)
    : round_(round),
      optimizer_(std::move(optimizer)),
      begin_(values.reshaped(Shape{values.size()})),
      next_(round.first) {
  state_.version = state_.accumulators_since = round.version;
  state_.values = begin_;
}

Tensor ReplicaCopy::values(int64_t step) {
  if (step == next_) return state_.values;
  if (step == next_ - 1 && step >= round_.first) return previous_values(state_);
  return {};
}

void ReplicaCopy::update(const Gradient& gradient) {
  if (next_ == round_.first)  // a replica that only reads needs none
    state_.optimizer_accumulators = zero_accumulators(optimizer_, begin_.dtype(), begin_.size());
  const Contribution all[] = {{.gradient = gradient}};
  apply_mean(optimizer_, all, /*keep_previous=*/true, state_);
  ++next_;
}

Tensor ReplicaCopy::change() const {
  Tensor out = Tensor::empty(begin_.dtype(), begin_.shape());
  if (out.dtype() == DType::f64)
    subtract<double>(begin_, state_.values, out);
  else
    subtract<float>(begin_, state_.values, out);
  return out;
}

}  // namespace troupe

// Implements training/update.hpp. Works in blocks that stay in the first-level cache: copy, mean
// and optimizer pass over memory once, and twice for an optimizer that wants norms first.
#include "training/update.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "training/optimizer.hpp"

namespace troupe {
namespace {

constexpr int64_t kBlock = 1024;  // elements; in f64 four to six arrays of 8 KiB

// Sum in the order of `gradients`, then one division.
template <class T>
const T* mean_block(std::span<const Contribution> gradients, int64_t begin, int64_t n,
                    T* __restrict sum) {
  if (gradients.size() == 1) return gradients[0].gradient.data<T>() + begin;
  std::memcpy(sum, gradients[0].gradient.data<T>() + begin, static_cast<size_t>(n) * sizeof(T));
  for (size_t k = 1; k < gradients.size(); ++k) {
    const T* __restrict g = gradients[k].gradient.data<T>() + begin;
    for (int64_t i = 0; i < n; ++i) sum[i] += g[i];
  }
  const T count = static_cast<T>(gradients.size());
  for (int64_t i = 0; i < n; ++i) sum[i] /= count;
  return sum;
}

// What one update reads and writes, and its blocks.
template <class T>
struct Update {
  std::span<const Contribution> gradients;
  const T* old_values;
  T* values;
  std::array<T*, kOptimizerSlotsMax> slots = {};
  int64_t size;

  Update(std::span<const Contribution> pushed, const Tensor& from, Tensor& to, SliceValues& state)
      : gradients(pushed),
        old_values(from.data<T>()),
        values(to.mutable_data<T>()),
        size(to.size()) {
    for (size_t s = 0; s < state.optimizer_slots.size(); ++s)
      slots[s] = state.optimizer_slots[s].second.mutable_data<T>();
  }

  // f(elements, arrays) of each block in order. The first pass is given the mean of the gradients,
  // and values that have been copied to where they are written.
  template <class F>
  void first_pass(F f) const {
    alignas(64) std::array<T, kBlock> sum;
    blocks([&](int64_t begin, int64_t n, OptimizerArrays<T>& a) {
      a.gradient = mean_block(gradients, begin, n, sum.data());
      if (old_values != values)
        std::memcpy(a.values, old_values + begin, static_cast<size_t>(n) * sizeof(T));
      f(n, a);
    });
  }
  template <class F>
  void second_pass(F f) const {
    blocks([&](int64_t, int64_t n, OptimizerArrays<T>& a) { f(n, a); });
  }

 private:
  template <class F>
  void blocks(F f) const {
    for (int64_t begin = 0; begin < size; begin += kBlock) {
      OptimizerArrays<T> a;
      a.values = values + begin;
      for (size_t s = 0; s < slots.size(); ++s) a.slots[s] = slots[s] ? slots[s] + begin : nullptr;
      f(begin, std::min(kBlock, size - begin), a);
    }
  }
};

template <class T>
void apply_blocks(const Optimizer& optimizer, std::span<const Contribution> gradients,
                  const Tensor& from, Tensor& to, SliceValues& state) {
  const Update<T> update(gradients, from, to, state);
  const int64_t t = state.version + 1;
  if (!wants_whole_parameter(optimizer)) return update.first_pass(OptimizerUpdate<T>(optimizer, t));
  LambUpdate<T> lamb(optimizer, t);
  update.first_pass([&](int64_t n, const OptimizerArrays<T>& a) { lamb.moments(n, a); });
  update.second_pass([&](int64_t n, const OptimizerArrays<T>& a) { lamb.step(n, a); });
}

void make_writable(Tensor& tensor) {
  if (tensor.unique()) return;
  Tensor copy = Tensor::empty(tensor.dtype(), tensor.shape());
  if (tensor.size() > 0)
    std::memcpy(copy.mutable_raw(), tensor.raw(), static_cast<size_t>(tensor.byte_size()));
  tensor = std::move(copy);
}

template <class T, class Bits>
std::optional<std::string> find_not_finite_bits(const Tensor& gradient, Bits exponent) {
  const std::span<const T> values = gradient.values<T>();
  Bits bad = 0;  // without a branch in the loop, so that it is vectorised
  for (const T& v : values)
    bad |= static_cast<Bits>((std::bit_cast<Bits>(v) & exponent) == exponent);
  if (!bad) return std::nullopt;
  for (size_t i = 0; i < values.size(); ++i)
    if ((std::bit_cast<Bits>(values[i]) & exponent) == exponent)
      return detail::concat("element ", i, " is ", values[i]);
  return std::nullopt;
}

}  // namespace

std::vector<std::pair<std::string, Tensor>> zero_slots(const Optimizer& optimizer, DType dtype,
                                                       int64_t n) {
  std::vector<std::pair<std::string, Tensor>> out;
  for (const std::string& name : optimizer_slots(optimizer))
    out.emplace_back(name, Tensor::zeros(dtype, Shape{n}));
  return out;
}

bool apply_mean(const Optimizer& optimizer, std::span<const Contribution> gradients,
                bool keep_previous, SliceValues& state) {
  TROUPE_CHECK(!gradients.empty(), "an update wants gradients");
  for (auto& [name, slot] : state.optimizer_slots) make_writable(slot);
  const bool in_place = !keep_previous && state.values.unique();
  Tensor from = in_place ? Tensor{} : state.values;
  Tensor to = in_place                  ? std::move(state.values)
              : state.previous.unique() ? std::move(state.previous)
                                        : Tensor::empty(state.values.dtype(), state.values.shape());
  const Tensor& source = in_place ? to : from;
  if (to.dtype() == DType::f64)
    apply_blocks<double>(optimizer, gradients, source, to, state);
  else
    apply_blocks<float>(optimizer, gradients, source, to, state);
  state.values = std::move(to);
  if (!in_place) {
    state.previous = std::move(from);
    state.previous_version = state.version;
  }
  ++state.version;
  return in_place;
}

std::optional<std::string> find_not_finite(const Tensor& gradient) {
  if (gradient.dtype() == DType::f64)
    return find_not_finite_bits<double, uint64_t>(gradient, 0x7ff0000000000000u);
  return find_not_finite_bits<float, uint32_t>(gradient, 0x7f800000u);
}

}  // namespace troupe

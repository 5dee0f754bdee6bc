// Writes to the values of a slice that is not trained: assignments, sums, and the way back.
#include "training/shards/written_values.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "training/parameters/write_kind.hpp"
#include "troupe/op.hpp"
#include "troupe/ops/parameters.hpp"

namespace troupe {
namespace {

template <class T>
T sum_of(T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    throw InternalError("bools are not added");
  } else if constexpr (std::is_integral_v<T>) {  // wraps around
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
  } else if constexpr (std::is_floating_point_v<T>) {
    return a + b;
  } else {
    return static_cast<T>(static_cast<float>(a) + static_cast<float>(b));
  }
}

void add_to(DType dtype, const void* x, void* y, int64_t n) {
  with_type(dtype, [=](auto zero) {
    using T = decltype(zero);
    const T* from = static_cast<const T*>(x);
    T* to = static_cast<T*>(y);
    for (int64_t i = 0; i < n; ++i) to[i] = sum_of(to[i], from[i]);
  });
}

// Calls f(row of the slice, row of `rows`, elements) for each row that `rows` names, in order.
template <class F>
void each_row(const Gradient& rows, Tensor& values, const F& f) {
  const int64_t bytes = rows.row_size() * size_of(values.dtype());
  char* to = static_cast<char*>(values.mutable_raw());
  const char* from = static_cast<const char*>(rows.values.raw());
  for (const int64_t index : rows.rows()) {
    f(to + index * bytes, from, rows.row_size());
    from += bytes;
  }
}

// The rows that `rows` names, with their present contents in `values`.
Gradient present_rows(const Gradient& rows, const Tensor& values) {
  Gradient found{Tensor::empty(values.dtype(), rows.values.shape()),
                 Tensor::of<int64_t>(rows.rows(), rows.indices.shape())};
  const int64_t bytes = rows.row_size() * size_of(values.dtype());
  const char* from = static_cast<const char*>(values.raw());
  char* to = static_cast<char*>(found.values.mutable_raw());
  for (const int64_t index : rows.rows()) to = std::copy_n(from + index * bytes, bytes, to);
  return found;
}

// A row that is named twice was saved with the same contents both times, so any order is right.
void put_back(const Gradient& undo, Tensor& values) {
  const auto bytes = static_cast<size_t>(size_of(values.dtype()));
  each_row(undo, values, [bytes](char* to, const char* from, int64_t n) {
    std::memcpy(to, from, static_cast<size_t>(n) * bytes);
  });
}

// Changes the values by the write of `p`. Requires: no other owner holds them.
void change(const Push& p, Tensor& values) {
  const DType dtype = values.dtype();
  const auto bytes = static_cast<size_t>(size_of(dtype));
  switch (write_kind(p.write)) {
    case ParameterWrite::assign:
      if (values.size() > 0)
        std::memcpy(values.mutable_raw(), p.gradient.values.raw(),
                    static_cast<size_t>(values.byte_size()));
      return;
    case ParameterWrite::add:
      return add_to(dtype, p.gradient.values.raw(), values.mutable_raw(), values.size());
    case ParameterWrite::assign_rows:
      return each_row(p.gradient, values, [bytes](char* to, const char* from, int64_t n) {
        std::memcpy(to, from, static_cast<size_t>(n) * bytes);
      });
    case ParameterWrite::add_rows:
      return each_row(p.gradient, values, [dtype](char* to, const char* from, int64_t n) {
        add_to(dtype, from, to, n);
      });
  }
}

}  // namespace

const Tensor& WrittenValues::before(const Tensor& values) {
  if (before_.defined()) return before_;
  Tensor before = values;
  if (!undo_.empty()) make_writable(before);
  for (auto undo = undo_.rbegin(); undo != undo_.rend(); ++undo) put_back(*undo, before);
  undo_.clear();
  return before_ = std::move(before);
}

AggregationRule::PullVerdict WrittenValues::verdict(int32_t replica, int64_t step,
                                                    const Aggregation& rule,
                                                    const Slice& slice) const {
  if (rule != Aggregation::sync || step < 0 || step > step_) return {};
  if (step == step_) return {AggregationRule::PullVerdict::previous};
  return {
      AggregationRule::PullVerdict::gone,
      detail::concat(
          "the values of step ", step, " of ", describe(slice), " are gone: replica ", replica_,
          " has written in step ", step_,
          replica == replica_
              ? detail::concat("; steps of a replica are run in their order: if you count "
                               "them (RunOptions::step), go on with ",
                               step_ + 1, " or more; if the session does, run one after the other")
              : "; read them before the pushes of the step (control inputs)")};
}

// Saves the values before the first write of a step: a step that is done again reads them.
void WrittenValues::keep_before(const Push& p, const Aggregation& rule, const SliceValues& values) {
  if (p.step > step_) {
    step_ = p.step;
    replica_ = p.replica;
    before_.reset();
    undo_.clear();
    before_version_ = values.version;
  }
  if (rule != Aggregation::sync || before_.defined()) return;
  if (writes_rows(write_kind(p.write)))
    undo_.push_back(present_rows(p.gradient, values.values));
  else
    before(values.values);
}

ReplicaProgress& WrittenValues::done_by(const Push& p) {
  return done_
      .try_emplace({p.replica, p.number},
                   ReplicaProgress{.replica = p.replica, .next_step = begins_})
      .first->second;
}

bool WrittenValues::has(const Push& p) {
  if (p.step < begins_) return true;
  const ReplicaProgress& done = done_by(p);
  return done.behind(p.step) >= ReplicaProgress::kWindow || done.has(p.step);
}

std::string WrittenValues::too_old(const Push& p, const Aggregation& rule) {
  const ReplicaProgress& done = done_by(p);
  const bool old = p.step >= begins_ && done.behind(p.step) >= ReplicaProgress::kWindow;
  // A replica that does a round of local steps again has written in each of them before.
  if (rule.local()) return {};
  return old ? done.too_old(p.step) : std::string();
}

std::optional<int32_t> WrittenValues::other_writer(const Push& p, const Aggregation& rule) const {
  if (!rule.repeats() || replica_ < 0 || replica_ == p.replica) return std::nullopt;
  return replica_;
}

bool WrittenValues::write(const Push& p, const Aggregation& rule, SliceValues& values) {
  done_by(p).count(p.step);
  keep_before(p, rule, values);
  const bool in_place = may_be_written(values.values);
  make_writable(values.values);
  change(p, values.values);
  ++values.version;
  return in_place;
}

}  // namespace troupe

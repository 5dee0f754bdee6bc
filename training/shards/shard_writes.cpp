// Writes to the slices of a Shard that are not trained.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "training/shards/shard_body.hpp"
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

// Calls f(row of the slice, row of `packed`) for each row that `packed` names, in order.
template <class F>
void each_row(const Tensor& packed, Tensor& values, const F& f) {
  const PackedRows rows = read_rows(packed);
  const int64_t bytes = rows.row_size * size_of(values.dtype());
  char* to = static_cast<char*>(values.mutable_raw());
  const char* from = static_cast<const char*>(rows.values);
  for (size_t i = 0; i < rows.indices.size(); ++i)
    f(to + rows.indices[i] * bytes, from + static_cast<int64_t>(i) * bytes, rows.row_size);
}

// The rows that `packed` names, with their present contents in `values`.
Tensor present_rows(const Tensor& packed, const Tensor& values) {
  const PackedRows rows = read_rows(packed);
  const int64_t bytes = rows.row_size * size_of(values.dtype());
  std::vector<char> found(rows.indices.size() * static_cast<size_t>(bytes));
  const char* from = static_cast<const char*>(values.raw());
  char* to = found.data();
  for (const int64_t index : rows.indices) to = std::copy_n(from + index * bytes, bytes, to);
  return pack_rows(rows.row_size, rows.indices, found.data(), values.dtype());
}

void put_back(const Tensor& undo, Tensor& values) {
  const PackedRows rows = read_rows(undo);
  const int64_t bytes = rows.row_size * size_of(values.dtype());
  const char* from = static_cast<const char*>(rows.values);
  char* to = static_cast<char*>(values.mutable_raw());
  // A row that is named twice was saved with the same contents both times, so any order is right.
  for (const int64_t index : rows.indices) {
    std::copy_n(from, bytes, to + index * bytes);
    from += bytes;
  }
}

// Changes the values by the write of `p`. Requires: no other owner holds them.
void change(const Push& p, Tensor& values) {
  const DType dtype = values.dtype();
  const auto bytes = static_cast<size_t>(size_of(dtype));
  switch (write_kind(p.write)) {
    case ParameterWrite::assign:
      if (values.size() > 0)
        std::memcpy(values.mutable_raw(), p.gradient.raw(),
                    static_cast<size_t>(values.byte_size()));
      return;
    case ParameterWrite::add:
      return add_to(dtype, p.gradient.raw(), values.mutable_raw(), values.size());
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

const Tensor& Shard::Body::before_writes(Held& held) {
  Written& written = held.written;
  if (written.before.defined()) return written.before;
  Tensor before = held.state.values;
  if (!written.undo.empty()) make_writable(before);
  for (auto undo = written.undo.rbegin(); undo != written.undo.rend(); ++undo)
    put_back(*undo, before);
  written.undo.clear();
  return written.before = std::move(before);
}

AggregationRule::PullVerdict Shard::Body::pull_written(const Held& held, int32_t replica,
                                                       int64_t step) const {
  const Written& written = held.written;
  if (kind != Aggregation::sync || step < 0 || step > written.step) return {};
  if (step == written.step) return {AggregationRule::PullVerdict::previous};
  return {AggregationRule::PullVerdict::gone,
          detail::concat(
              "the values of step ", step, " of ", describe(held.slice), " are gone: replica ",
              written.replica, " has written in step ", written.step,
              replica == written.replica
                  ? detail::concat("; steps of a replica are run in their order: if you count "
                                   "them (RunOptions::step), go on with ",
                                   written.step + 1,
                                   " or more; if the session does, run one after the other")
                  : "; read them before the pushes of the step (control inputs)")};
}

// Saves the values before the first write of a step: a step that is done again reads them.
void Shard::Body::keep_before(Held& held, const Push& p) const {
  Written& written = held.written;
  if (p.step > written.step) {
    written.step = p.step;
    written.replica = p.replica;
    written.before.reset();
    written.undo.clear();
    written.before_version = held.state.version;
  }
  if (kind != Aggregation::sync || written.before.defined()) return;
  if (writes_rows(write_kind(p.write)))
    written.undo.push_back(present_rows(p.gradient, held.state.values));
  else
    before_writes(held);
}

void Shard::Body::write(Held& held, const Push& p, const std::vector<Ticket>& tickets,
                        ShardActions& out) {
  Written& written = held.written;
  const auto acknowledge = [&] {
    for (const Ticket& t : tickets)
      out.push_back({t.to, Acknowledged{t.ticket, p.slice, Errc::ok, {}, held.state.version}});
  };
  if (kind == Aggregation::sync && written.replica >= 0 && written.replica != p.replica)
    return refuse(p, tickets, PushRefusal::unknown, Errc::invalid_argument,
                  detail::concat(describe(held.slice), " is written by replica ", written.replica,
                                 " and by replica ", p.replica,
                                 ": under the synchronous rule one replica alone writes to a "
                                 "parameter, so that its values do not depend on who was first; "
                                 "let replica 0 do it, or train asynchronously"),
                  out);
  ReplicaProgress& done =
      written.done
          .try_emplace({p.replica, p.number},
                       ReplicaProgress{.replica = p.replica, .next_step = written.begins})
          .first->second;
  if (done.behind(p.step) >= ReplicaProgress::kWindow || done.has(p.step)) {
    ++counters.duplicate;
    return acknowledge();
  }
  done.count(p.step);
  keep_before(held, p);
  Tensor& values = held.state.values;
  if (!values.unique()) ++counters.copies;
  make_writable(values);
  change(p, values);
  ++held.state.version;
  ++counters.updates;
  ++counters.applied;
  acknowledge();
}

}  // namespace troupe

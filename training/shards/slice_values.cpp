// Makes the values of slices from what owners and checkpoints give.
#include "training/shards/slice_values.hpp"

#include <algorithm>

#include "devices/failure.hpp"
#include "graph/base/mutant.hpp"
#include "training/rules/optimizer.hpp"
#include "training/rules/row_store.hpp"
#include "training/rules/rule_local.hpp"
#include "training/shards/slice_fit.hpp"

namespace troupe {
namespace {

std::shared_ptr<RowStore> store_for(const Slice& slice, const ShardMemory& memory) {
  if (!slice.table) return nullptr;
  RowLayout layout{slice.dtype, slice.row_size(), {}};
  if (slice.optimizer) layout.accumulators = optimizer_accumulators(*slice.optimizer);
  return std::make_shared<RowStore>(slice.parameter, *slice.table, std::move(layout), memory);
}

// True if the state has all accumulators of the rows.
Outcome restore_rows(const Slice& slice, const SliceState& state, RowStore& table, bool& all) {
  const RowLayout& wanted = table.layout();
  if (!state.rows || state.rows->layout.dtype != wanted.dtype ||
      state.rows->layout.width != wanted.width)
    return {Errc::invalid_argument,
            detail::concat("the restored state of ", describe(slice), " has no rows of ",
                           wanted.width, " elements of ", wanted.dtype)};
  const auto& has = state.rows->layout.accumulators;
  all = std::ranges::all_of(wanted.accumulators, [&](const std::string& name) {
    return std::ranges::find(has, name) != has.end();
  });
  const Failure failed = failure_of([&] { table.restore(*state.rows); });
  return {failed.code, failed.text};
}

Outcome restore_accumulators(const Slice& slice, SliceState& state, SliceValues& out, bool& all) {
  size_t restored = 0;
  for (auto& [name, tensor] : out.optimizer_accumulators)
    for (auto& [given_name, given] : state.optimizer_accumulators)
      if (name == given_name) {
        if (Outcome o = check_values(slice, given, name.c_str()); !o) return o;
        if (!mutant(Mutant::accumulators_not_restored)) tensor = flat(std::move(given));
        ++restored;
      }
  all = restored == out.optimizer_accumulators.size();
  return {};
}

}  // namespace

std::vector<std::pair<std::string, Tensor>> fresh_accumulators(const Aggregation& rule,
                                                               const Slice& slice) {
  if (slice.table) return {};
  if (!rule.local()) return zero_accumulators(*slice.optimizer, slice.dtype, slice.size);
  auto out = zero_accumulators(outer_optimizer(rule), slice.dtype, slice.size);
  for (auto& [name, tensor] : out) name = kOuterMomentum;
  return out;
}

Tensor flat(Tensor values) {
  return values.ndim() == 1 ? values : values.reshaped(Shape{values.size()});
}

SliceValues first_values(const Slice& slice, const Aggregation& rule, const ShardMemory& memory,
                         Tensor values) {
  SliceValues out;
  out.values = flat(std::move(values));
  out.table = store_for(slice, memory);
  if (slice.optimizer) out.optimizer_accumulators = fresh_accumulators(rule, slice);
  return out;
}

Outcome restored_values(const Slice& slice, const Aggregation& rule, const ShardMemory& memory,
                        SliceState& state, SliceValues& out) {
  if (Outcome o = check_values(slice, state.values, "the restored values"); !o) return o;
  if (state.version < 0)
    return {Errc::invalid_argument,
            detail::concat("the restored version of ", describe(slice), " is ", state.version)};
  out = first_values(slice, rule, memory, std::move(state.values));
  out.version = state.version;
  bool all = true;
  if (Outcome o = slice.table ? restore_rows(slice, state, *out.table, all)
                              : restore_accumulators(slice, state, out, all);
      !o)
    return o;
  if (slice.optimizer) out.accumulators_since = all ? state.accumulators_since : state.version;
  return {};
}

Tensor table_rows(const Slice& slice, const Pull& p, const SliceValues& values, bool before) {
  return names_rows(slice, p) ? values.table->take(p.rows.values<int64_t>(), before) : Tensor{};
}

Outcome reserve_rows(SliceValues& values, const Gradient& gradient) {
  if (!values.table || !gradient.defined()) return {};
  const Failure full = failure_of([&] { values.table->reserve(gradient.rows()); });
  return {full.code, full.text};
}

}  // namespace troupe

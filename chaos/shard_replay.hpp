// ShardReplay: the updates of each slice once more, on one node, from the values that the slice
// began with (I8). An update that was lost, or changed memory that it shared, gives other bits.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "chaos/history.hpp"
#include "training/rules/row_store.hpp"
#include "training/rules/update.hpp"
#include "training/shards/shard.hpp"

namespace troupe::sim {

class ShardReplay {
 public:
  // The slice serves, perhaps in another epoch, and with values of before.
  void serves(uint32_t slice, const SliceValues& now) {
    Line& line = lines_[slice];
    if (!line.first.values.defined()) line.first = copy_of(now);
  }
  // A restore may have gone back to the version before.
  void applied(const Shard::Applied& a) {
    auto& updates = lines_[a.slice].updates;
    updates.erase(updates.lower_bound(a.version), updates.end());
    updates[a.version] = a;
  }

  // Throws: Violation.
  void check(uint32_t slice, const SliceValues& now) const {
    const Line& line = lines_.at(slice);
    SliceValues state = copy_of(line.first);
    const Shard::Applied* before = nullptr;
    for (const auto& [version, update] : line.updates) {
      if (version != state.version + update.steps || version > now.version) break;
      // A shard begins by the rule that it was made with, before it is told that of the training.
      const bool anew = before ? before->rule.local() != update.rule.local() ||
                                     before->optimizer.kind != update.optimizer.kind
                               : state.accumulators_since == state.version;
      if (anew && !state.table) {
        state.optimizer_accumulators =
            zero_accumulators(update.optimizer, state.values.dtype(), state.values.size());
        state.accumulators_since = state.version;
      }
      before = &update;
      std::vector<Contribution> gradients;
      for (size_t i = 0; i < update.from.size(); ++i) {
        const auto& from = update.from[i];
        gradients.push_back({from.replica, from.step, from.incarnation, update.gradients[i]});
      }
      if (gradients.empty())
        pass_update(/*keep_previous=*/false, state);
      else
        apply_mean(update.optimizer, gradients, /*keep_previous=*/false, state);
      state.version = version;
    }
    if (state.version != now.version)
      throw Violation{"I8", detail::concat("slice ", slice, " has version ", now.version,
                                           ", and its updates end at ", state.version)};
    bool same = has_bits(state.values, now.values);
    if (now.table) same = same_rows(state.table->image(), now.table->image());
    for (size_t i = 0; i < now.optimizer_accumulators.size(); ++i)
      same = same &&
             has_bits(state.optimizer_accumulators[i].second, now.optimizer_accumulators[i].second);
    if (!same)
      throw Violation{"I8", detail::concat("slice ", slice, " at version ", now.version,
                                           " has other bits than its updates give on one node")};
  }

 private:
  struct Line {
    SliceValues first;
    std::map<int64_t, Shard::Applied> updates;  // by version
  };
  // In memory of its own: the shard may write to its own values as if nobody looked.
  static SliceValues copy_of(const SliceValues& now) {
    SliceValues out{.version = now.version, .values = now.values};
    out.optimizer_accumulators = now.optimizer_accumulators;
    out.accumulators_since = now.accumulators_since;
    if (now.table) out.table = now.table->copy();
    make_writable(out.values);
    for (auto& [name, values] : out.optimizer_accumulators) make_writable(values);
    return out;
  }
  static bool has_bits(const Tensor& a, const Tensor& b) {
    return a.byte_size() == b.byte_size() &&
           std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.byte_size())) == 0;
  }

  std::map<uint32_t, Line> lines_;  // by slice
};

}  // namespace troupe::sim

// The answers of a shard to requests for a ShardDescription, to which its actor adds its door, and
// for PushesCounted.
// Owner: none, plain functions. Thread: that of Shard's caller.
#pragma once

#include "training/parameters/messages.hpp"
#include "training/rules/row_store.hpp"
#include "training/shards/shard.hpp"

namespace troupe {

inline ShardDescription describe_shard(const Shard& shard) {
  ShardDescription out;
  out.epoch = shard.epoch();
  out.rule = to_string(shard.rule());
  out.serving = shard.state() == Shard::State::serving;
  out.rate_scale = shard.rate_scale();
  bool trained = false;  // without a rule no slice counts steps
  for (const Slice& slice : shard.slices()) {
    trained |= shard.find(slice.id)->rule() != nullptr;
    out.slices.push_back(to_spec(slice));
    out.versions.push_back(shard.version(slice.id));
    const SliceUse& use = shard.find(slice.id)->use();
    out.pulled_bytes.push_back(use.pulled_bytes);
    out.pushed_bytes.push_back(use.pushed_bytes);
    const RowStore* const table = shard.find(slice.id)->values().table.get();
    const TableUse rows = table ? table->use() : TableUse{};
    out.table_rows.push_back(rows.rows);
    out.table_bytes.push_back(rows.bytes);
    out.table_made.push_back(rows.made);
    out.table_forgotten.push_back(rows.forgotten);
    out.stale_updates.push_back(use.staleness.updates);
    out.staleness_sum.push_back(use.staleness.sum);
    out.staleness_max.push_back(use.staleness.max);
  }
  if (trained)
    for (const ReplicaProgress& p : shard.replicas()) out.next_steps[p.replica] = p.next_step;
  const ShardCounters counters = shard.counters();
  out.received = counters.received;
  out.applied = counters.applied;
  out.merged = counters.merged;
  out.duplicate = counters.duplicate;
  out.refused = counters.all_refused();
  return out;
}

inline PushesCounted count_pushes(const Shard& shard) {
  PushesCounted out;
  for (const PushRow& row : shard.pushes()) {
    const PushCounts& c = row.counts;
    out.slices.push_back(row.slice);
    out.replicas.push_back(row.replica);
    out.counts.insert(out.counts.end(), {c.received, c.applied, c.merged, c.duplicate, row.held});
    out.counts.insert(out.counts.end(), c.refused.begin(), c.refused.end());
  }
  return out;
}

}  // namespace troupe

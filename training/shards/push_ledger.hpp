// PushLedger: the pushes to one slice, by replica and by their end. A shard counts each push when
// it comes, and once more when it ends; in between it is held.
// Owner: HeldSlice. Thread: that of Shard's caller.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "training/shards/shard_counters.hpp"

namespace troupe {

class PushLedger {
 public:
  // The row of replicas that the shard does not have, or has no more: rows are no more than
  // replicas and this one.
  static constexpr int32_t kOthers = -1;

  PushCounts& of(int32_t replica) { return rows_[replica]; }
  const std::map<int32_t, PushCounts>& rows() const { return rows_; }
  // Moves the counts of all other replicas to the row of kOthers. Requires: none of them is held.
  void keep_only(const std::set<int32_t>& replicas) {
    PushCounts gone;
    std::erase_if(rows_, [&](const auto& row) {
      if (row.first == kOthers || replicas.count(row.first)) return false;
      gone += row.second;
      return true;
    });
    if (gone.received > 0) rows_[kOthers] += gone;
  }

 private:
  std::map<int32_t, PushCounts> rows_;  // by replica
};

// A row, with the pushes that have not ended: received == ended() + held.
struct PushRow {
  static constexpr uint32_t kNoSlice =
      UINT32_MAX;  // pushes for slices that the shard does not have
  uint32_t slice = kNoSlice;
  int32_t replica = PushLedger::kOthers;
  PushCounts counts;
  int64_t held = 0;
};

}  // namespace troupe

// Names the slices of rows, and the reasons of refusals.
#include "training/group/push_counts.hpp"

#include <algorithm>

#include "training/shards/push_ledger.hpp"

namespace troupe {
namespace {

constexpr size_t kFirstRefusal = 5;  // behind received, applied, merged, duplicate and held ones
constexpr size_t kWidth = kFirstRefusal + kPushRefusals;

PushCount count_of(const int64_t* counts) {
  PushCount out;
  out.received = counts[0];
  out.applied = counts[1];
  out.merged = counts[2];
  out.duplicate = counts[3];
  out.held = counts[4];
  for (size_t i = 0; i < kPushRefusals; ++i) {
    const int64_t n = counts[kFirstRefusal + i];
    if (static_cast<PushRefusal>(i) == PushRefusal::late)
      out.late = n;
    else if (n > 0)
      out.refused[kPushRefusalNames[i]] = n;
  }
  return out;
}

}  // namespace

void add_counts(const PushesCounted& counted, const ShardTable::Entry& shard,
                std::vector<PushCount>& out) {
  const size_t rows = counted.slices.size();
  if (counted.replicas.size() != rows || counted.counts.size() != rows * kWidth) return;
  for (size_t row = 0; row < rows; ++row) {
    const uint32_t id = counted.slices[row];
    const auto slice = std::find_if(shard.slices.begin(), shard.slices.end(),
                                    [id](const Slice& s) { return s.id == id; });
    const bool named = slice != shard.slices.end();
    if (!named && id != PushRow::kNoSlice) continue;
    PushCount one = count_of(&counted.counts[row * kWidth]);
    if (named) one.parameter = slice->parameter, one.offset = slice->offset;
    one.task = shard.task;
    one.replica = counted.replicas[row];
    out.push_back(std::move(one));
  }
}

}  // namespace troupe

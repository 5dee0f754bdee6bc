// Counts of a shard's pushes, pulls and updates.
// Owner: Shard. Thread: that of Shard's caller.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>

namespace troupe {

// Why a push was refused.
enum class PushRefusal : uint8_t {
  epoch,        // another epoch
  incarnation,  // an older incarnation of its replica, or replaced by a newer one while it waited
  unknown,      // a slice or replica this shard does not have
  not_serving,  // empty or restoring
  type,         // another dtype or size than the slice, or a slice that is not trained
  gap,          // too far ahead in sequence
  step,         // too far ahead, or older than the remembered steps
  not_finite,   // NaN or infinity in a gradient
  memory,       // no room for the rows that it would make
  late,         // its update was made without it; acknowledged, as its replica goes on
  kCount,
};
inline constexpr size_t kPushRefusals = static_cast<size_t>(PushRefusal::kCount);
inline constexpr std::array<const char*, kPushRefusals> kPushRefusalNames = {
    "epoch", "incarnation", "unknown",    "not serving", "type",
    "gap",   "step",        "not finite", "memory",      "late"};

// Updates of one slice from gradients of values that their replica had pulled before: between both
// were `sum` other updates, and at most `max`.
struct Staleness {
  int64_t updates = 0, sum = 0, max = 0;
  void add(int64_t between) {
    ++updates;
    sum += between;
    max = std::max(max, between);
  }
};

// The use of one slice since its shard was made.
struct SliceUse {
  int64_t pulled_bytes = 0, pushed_bytes = 0;
  Staleness staleness = {};
};

// Pushes, by their end.
struct PushCounts {
  int64_t received = 0;
  int64_t applied = 0;    // made an update by themselves
  int64_t merged = 0;     // made an update together with other replicas' gradients
  int64_t duplicate = 0;  // repeated; acknowledged again, or together with the first
  std::array<int64_t, kPushRefusals> refused = {};

  void refuse(PushRefusal reason, int64_t pushes = 1) {
    refused[static_cast<size_t>(reason)] += pushes;
  }
  int64_t all_refused() const {
    return std::accumulate(refused.begin(), refused.end(), int64_t{0});
  }
  int64_t ended() const { return applied + merged + duplicate + all_refused(); }
  PushCounts& operator+=(const PushCounts& other) {
    received += other.received;
    applied += other.applied;
    merged += other.merged;
    duplicate += other.duplicate;
    for (size_t i = 0; i < refused.size(); ++i) refused[i] += other.refused[i];
    return *this;
  }
};

// After every call, received == ended() + held.
struct ShardCounters : PushCounts {
  int64_t held = 0;     // pushes that are parked, or in an open round
  int64_t updates = 0;  // versions made
  // pulls == pulls_answered + pulls_refused + pulls_waiting
  int64_t pulls = 0, pulls_waiting = 0;
  int64_t pulls_answered = 0, pulls_unchanged = 0;  // unchanged: answered without values
  int64_t pulls_refused = 0;                        // refused, or no longer wanted
  int64_t pull_looks = 0;                           // at waiting pulls, after updates
  int64_t copies = 0;                               // updates that could not be made in place
};

}  // namespace troupe

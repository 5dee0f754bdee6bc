// PushOrder: the order of the pushes to one slice. A replica numbers its pushes in sequence; one
// that comes early is parked until all before it have come. A newer incarnation of a replica counts
// from 0 again and fences the one before.
// Owner: HeldSlice. Thread: that of Shard's caller.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "training/parameters/local_shard.hpp"
#include "training/shards/shard_counters.hpp"

namespace troupe {

struct Ticket {
  uint64_t to = 0, ticket = 0;
  friend bool operator==(const Ticket&, const Ticket&) = default;
};

// The senders that wait for the acknowledgement of one push.
using Tickets = std::vector<Ticket>;
// Adds it once. Above a few, the oldest is forgotten, as newer ones have replaced it.
void add(Tickets& tickets, Ticket ticket);

class PushOrder {
 public:
  // A replica's pushes may be this far ahead of the next one in sequence.
  static constexpr int64_t kStepsInFlightMax = 8;

  struct Waiting {
    Push push;
    Tickets tickets;
  };
  // Pushes that never count, each Errc::stale.
  struct Refused {
    int32_t replica;
    Tickets tickets;
    PushRefusal reason;
    std::string text;
  };

  // The newest that pushed; pushes of earlier ones never count.
  uint64_t incarnation(int32_t replica) const;
  // Begins a newer incarnation, and refuses what is parked of the one before.
  void renew(int32_t replica, uint64_t incarnation, std::vector<Refused>& refused);
  // Where the push of its replica's newest incarnation stands: `next` in sequence, `before` it, or
  // later. A later one is moved to where it is parked, repeats one that is, or is too far ahead.
  enum class Place : uint8_t { refused, parked, repeated, before, next };
  Place place(Push& push, Ticket ticket, const Slice& slice, std::vector<Refused>& refused);
  // The replica's next push is done; returns the one after it if that was parked.
  std::optional<Waiting> done(int32_t replica);

  // The senders that wait for this push while it is parked; null if it is not.
  Tickets* parked(const Push& push);
  // True if a push of this incarnation and number came in order.
  bool passed(const Push& push) const;
  int64_t parked() const;
  int64_t parked(int32_t replica) const;

  void forget(uint64_t from);  // the sender waits no more
  void keep_only(const std::set<int32_t>& replicas);
  // Counts from 0 again, and refuses what is parked. Any incarnation may be the next: the epoch
  // fences the pushes of before, and a process that was replaced gets no routes of the new one.
  void begin_again(const std::string& why, std::vector<Refused>& refused);

 private:
  struct Sequence {
    uint64_t incarnation = 0;
    int64_t next = 0;
    std::map<int64_t, Waiting> parked = {};  // by number in sequence
  };
  static void refuse_parked(int32_t replica, Sequence& sequence, PushRefusal reason,
                            const std::string& why, std::vector<Refused>& refused);

  std::map<int32_t, Sequence> sequences_;  // by replica
};

}  // namespace troupe

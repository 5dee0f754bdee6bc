// Targets: the addresses that a mesh dials until it has a link to the process there: seeds for
// ever, lost members for a while. It decides about backoff, patience and reminders, without sockets
// and without a clock.
//
// Owner: the mesh. Thread: the net thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/link/link.hpp"
#include "net/link/seams.hpp"

namespace troupe {

inline constexpr std::chrono::milliseconds kBackoffFirst{100}, kBackoffSeedMax{2000},
    kBackoffMax{30'000};
// A member that is no seed is dialled for this long after it was first named or last linked.
inline constexpr std::chrono::seconds kForgetAfter{600};
// Patience with the refusal task_taken. A member that has just died is not heard any more by then,
// and lets a newer one take its place.
inline constexpr std::chrono::seconds kTakenPatience{3};
// between log lines about an unreachable seed
inline constexpr std::chrono::seconds kSeedReminder{5};
inline constexpr size_t kTargetsMax = 2048;
// Dials under way to addresses that are no seeds: a member names addresses of any process.
inline constexpr size_t kDialsMax = 64;

class Targets {
 public:
  explicit Targets(Rng& rng) : rng_(rng) {}

  void add_seed(const std::string& address, TimePoint now);
  // Adds the address at which the member `name` is said to listen; it is dialled after `delay`. A
  // new address is ignored if there are kTargetsMax already.
  void add(const std::string& address, const std::string& name, TimePoint now,
           std::chrono::milliseconds delay);
  void clear() { targets_.clear(); }
  bool has(const std::string& address) const { return targets_.count(address) > 0; }

  // Returns the addresses to dial now, those that have waited longest first if they are too many
  // at once. Each counts as being dialled until failed(), or until
  // ended() with the link that connected() was given.
  std::vector<std::string> due(TimePoint now,
                               const std::function<bool(const std::string& name)>& is_linked);
  void connected(const std::string& address, const std::shared_ptr<Link>& link);
  // The dial got no connection. Returns true if the address is a seed and a reminder is due.
  bool failed(const std::string& address, TimePoint now);
  // The other side of that link has not greeted. Returns the address if it is a seed and a reminder
  // is due.
  std::optional<std::string> mute(const Link& link, TimePoint now);
  // A link that this process dialled has ended. Returns the address if the process cannot join: the
  // address is a seed (given by the user), the process there refuses for good, and this process is
  // `alone`, without any link. The refusal `untrusted` is for good when every seed has said it
  // last. After another final refusal, an address that is no seed is forgotten, because another
  // process than the wanted member listens there now. A seed is dialled again.
  std::optional<std::string> ended(const Link& link, Refusal why, bool alone, TimePoint now);
  // Records which member listens at an address, as an established link shows it.
  void met(const Link& link);
  void lost(const std::string& name, bool left, TimePoint now);

 private:
  struct Target {
    std::string name;                                        // of the member there, once known
    bool seed = false, dialling = false, untrusted = false;  // one side did not trust the other
    TimePoint next{}, since{}, told{};
    std::chrono::milliseconds backoff = kBackoffFirst;
    std::weak_ptr<Link> link;
    std::optional<TimePoint> taken_since;
  };
  void retry(Target& target, TimePoint now);
  bool reminds(Target& target, TimePoint now);
  std::map<std::string, Target>::iterator find(const Link& link);
  bool no_seed_trusts() const;

  Rng& rng_;
  std::map<std::string, Target> targets_;  // by address
};

}  // namespace troupe

// Targets: the addresses a mesh dials until it has a link to whoever listens there: seeds for ever,
// members that were lost for a while. Backoff, patience and reminders; no sockets, no clock of its
// own. Owner: the mesh. Net thread.
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
// A lost member that is no seed is not dialled any longer.
inline constexpr std::chrono::seconds kForgetAfter{600};
// For a task that seems taken; longer than kSilenceMax, so that a process that just died is known
// to be gone.
inline constexpr std::chrono::seconds kTakenPatience{3};
inline constexpr std::chrono::seconds kSeedReminder{5};  // between words about a seed not there
inline constexpr size_t kTargetsMax = 2048;

class Targets {
 public:
  explicit Targets(Rng& rng) : rng_(rng) {}

  void add_seed(const std::string& address, TimePoint now);
  // A member that is said to listen there; dialled after `delay`. Past kTargetsMax it is not.
  void add(const std::string& address, const std::string& name, TimePoint now,
           std::chrono::milliseconds delay);
  void clear() { targets_.clear(); }
  bool has(const std::string& address) const { return targets_.count(address) > 0; }

  // Those to be dialled now. Each is being dialled from here on, until failed(), or until ended()
  // of the link that connected() told of.
  std::vector<std::string> due(TimePoint now,
                               const std::function<bool(const std::string& name)>& is_linked);
  void connected(const std::string& address, const std::shared_ptr<Link>& link);
  // Nobody took the call. True: it is a seed, and time for a word about it.
  bool failed(const std::string& address, TimePoint now);
  // A link that we dialled has ended. Returns the address if that is the end of joining: a seed, an
  // address that a person gave us, turns us away for good, and we are `alone`, without any link. An
  // address that we only learned is forgotten then: whoever listens there now, it is not the member
  // that we want. A seed is dialled again.
  std::optional<std::string> ended(const Link& link, Refusal why, bool alone, TimePoint now);
  // Who listens where, by an established link.
  void met(const Link& link);
  void lost(const std::string& name, bool left, TimePoint now);

 private:
  struct Target {
    std::string name;  // of the member there, once known
    bool seed = false, dialling = false;
    TimePoint next{}, since{}, told{};
    std::chrono::milliseconds backoff = kBackoffFirst;
    std::weak_ptr<Link> link;
    std::optional<TimePoint> taken_since;
  };
  void retry(Target& target, TimePoint now);

  Rng& rng_;
  std::map<std::string, Target> targets_;  // by address
};

}  // namespace troupe

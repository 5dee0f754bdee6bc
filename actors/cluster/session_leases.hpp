// SessionLeases: the sessions that hold something in this process, and the processes of their
// programs. A session whose program is away for longer than the lease ends here, and so does one
// whose program has been started again under the same task name. From then on it is refused, unless
// it was only late and has lost no values here: its program makes all else again.
//
// Owner: the process; its agent ends the sessions. Thread: any.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <caf/node_id.hpp>

namespace troupe {

// Longer than freezes and cuts that a training survives.
inline constexpr std::chrono::minutes kLease{10};

class SessionLeases {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  // Sessions of `here` stay; with a lease of 0, all others do, too, unless their program is
  // replaced.
  SessionLeases(std::chrono::milliseconds lease, caf::node_id here)
      : lease_(lease), here_(std::move(here)) {}

  // The session of a program on that node keeps something here. Throws: Error(invalid_argument) if
  // it is refused here, or is of another process. `values`: their end is the session's, too.
  void hold(uint64_t session, const caf::node_id& by, TimePoint now, bool values = false);
  void check(uint64_t session, const caf::node_id& by) const;  // as hold(); takes unknown sessions
  bool is_of_another(uint64_t session, const caf::node_id& process) const;
  void release(uint64_t session);  // it has ended in order and keeps nothing

  // The members of the cluster. A program that is back in time keeps its sessions.
  void met(const std::string& task, uint64_t incarnation, const caf::node_id& node);
  void lost(const std::string& task, TimePoint now);
  std::string task_of(const caf::node_id& node) const;  // empty for one that was never met
  // This process has not run for that time, which counts for no program.
  void was_frozen(std::chrono::steady_clock::duration time, TimePoint now);

  struct Over {
    uint64_t session = 0;
    std::string task, why;
  };
  // Ends the sessions whose time is over.
  std::vector<Over> take_over(TimePoint now);
  bool any_away() const;  // a program that has sessions here; its time may run out

 private:
  struct Program {
    std::string task;  // empty: it was never met
    uint64_t incarnation = 0;
    std::optional<TimePoint> away;  // since then
    bool replaced = false;
    std::set<uint64_t> sessions;
  };
  static constexpr size_t kEndedMax = 4096;

  void check_locked(uint64_t session, const caf::node_id& by) const;
  bool is_of_another_locked(uint64_t session, const caf::node_id& process) const;

  const std::chrono::milliseconds lease_;
  const caf::node_id here_;
  mutable std::mutex mutex_;  // guards the rest
  std::map<caf::node_id, Program> programs_;
  struct Holder {
    caf::node_id node;
    bool values = false;
  };
  std::map<uint64_t, Holder> holders_;     // by session
  std::map<uint64_t, std::string> ended_;  // sessions that are refused, and why
  std::deque<uint64_t> ended_in_order_;    // the oldest first
};

}  // namespace troupe

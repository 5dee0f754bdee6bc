// Members: the members of the cluster as one master knows them: their agents, their devices, and
// the listeners to changes. A member is up once it has reported its devices; one without any is a
// visitor (training/group/visitor.cpp), and left out. Events are passed on
// one at a time, so no listener hears of a member's end before its beginning.
//
// Owner: the master. Thread: any; the mesh calls up(), down() and refused() on the net thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "actors/async/ask.hpp"
#include "actors/cluster/process.hpp"
#include "actors/engine/executor.hpp"

namespace troupe {

// An agent that does not answer for this long is ignored until it returns.
inline constexpr std::chrono::seconds kAgentTimeout{30};

class Members final : public MeshListener {
 public:
  // Called before the listeners, on the network thread or the asker's; must not block.
  struct First {
    std::function<void(const Member&)> up;
    std::function<void(const Member&, const std::string& reason)> down;
  };
  // `asker` (actors/async/ask.hpp) outlives this.
  Members(Process& process, const Asker& asker, First first);

  void up(const Member& member, const caf::actor& agent) override;
  void down(const Member& member, const std::string& reason) override;
  void refused(Errc code, const std::string& reason) override;

  // Also reports the members that are up already. Once removed, a listener is not called any more.
  void add_listener(MeshListener* listener);
  void remove_listener(MeshListener* listener);

  struct Present {
    Member member;
    Agent agent;
    std::vector<std::string> devices;
  };
  std::map<std::string, Present> present() const;  // up, by task
  std::map<std::string, Agent> agents() const;     // the same
  Present find(const std::string& task) const;     // an empty agent if it is not up
  // Includes members that have left: a call may be placed on one that is away just now.
  std::map<std::string, std::vector<std::string>> devices() const;  // by task
  StepResult refusal() const;  // the cluster's refusal of this process; ok if there was none
  // The two waits also end when the cluster refuses this process. While they wait, a log line names
  // the missing members, every kWaitingWord.
  //
  // Waits up to `timeout` for `count` members whose job is not `but`. Returns how many there are.
  size_t wait_for_count(size_t count, const std::string& but, std::chrono::milliseconds timeout);
  // Waits up to `timeout` for all of `tasks`. Returns those still missing.
  std::vector<std::string> wait_for(const std::vector<std::string>& tasks,
                                    std::chrono::milliseconds timeout);
  std::vector<std::string> heard_of() const;  // members that others know of and that are not up
  void stop();                                // ends all reports, and drops all handles

 private:
  template <class There, class Missing>
  void wait(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds timeout,
            const There& there, const Missing& missing);
  void described(uint64_t link, const Member& member, const Agent& agent,
                 std::vector<std::string> devices);

  Process& process_;
  const Asker& asker_;
  const First first_;

  std::mutex telling_;  // held while an event is passed on; taken before mutex_
  std::vector<MeshListener*> listeners_;
  bool stopped_ = false;

  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  uint64_t links_ = 0;                      // the number of links that have come up
  std::map<std::string, uint64_t> coming_;  // by task: the link of a member that has not reported
                                            // its devices yet
  std::map<std::string, Present> present_;
  std::map<std::string, std::vector<std::string>> devices_;
  StepResult refusal_;
};

}  // namespace troupe

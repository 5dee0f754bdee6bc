// Members: who is in the cluster, as one master knows it: their agents, their devices, and who
// wants to hear of them. A member is up once it has said which devices it has.
//
// Owner: the master. The mesh tells it, on the net thread. What it hears is passed on one thing
// after the other, so nobody hears of a member's end before its beginning.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "actors/cluster/process.hpp"
#include "actors/engine/stage.hpp"

namespace troupe {

// An agent that is there and does not answer for this long is given up until it returns.
inline constexpr std::chrono::seconds kAgentTimeout{30};

class Members {
 public:
  // Called before the listeners are, on the network thread or the asker's; must not block.
  struct First {
    std::function<void(const Member&)> up;
    std::function<void(const Member&, const std::string& reason)> down;
  };
  // `asker` (actors/async/ask.hpp) outlives us.
  Members(Process& process, const caf::actor& asker, First first);

  // From the mesh.
  void up(const Member& member, const caf::actor& agent);
  void down(const Member& member, const std::string& reason);
  void refused(Errc code, const std::string& reason);

  // Also told of those that are up already. Once removed, a listener is not told any more.
  void add_listener(MeshListener* listener);
  void remove_listener(MeshListener* listener);

  struct Present {
    Member member;
    caf::actor agent;
    std::vector<std::string> devices;
  };
  std::map<std::string, Present> present() const;    // up, by task
  std::map<std::string, caf::actor> agents() const;  // the same
  Present find(const std::string& task) const;       // an empty agent if it is not up
  // Of all members there ever were: a call may be placed on one that is away just now.
  std::map<std::string, std::vector<std::string>> devices() const;  // by task
  StepResult refusal() const;  // what the cluster said when it refused us; ok if it did not
  // These two also end when the cluster refuses us. While they wait, a line says who is missing,
  // each kWaitingWord.
  //
  // Up to `timeout` for `count` members whose job is not `but`. Returns how many there are.
  size_t wait_for_count(size_t count, const std::string& but, std::chrono::milliseconds timeout);
  // Up to `timeout` for all of `tasks`. Returns those still missing.
  std::vector<std::string> heard_of() const;
  std::vector<std::string> wait_for(const std::vector<std::string>& tasks,
                                    std::chrono::milliseconds timeout);
  void stop();  // nobody is told any more, and no handle is kept

 private:
  template <class There, class Missing>
  void wait(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds timeout,
            const There& there, const Missing& missing);
  void described(uint64_t link, const Member& member, const caf::actor& agent,
                 std::vector<std::string> devices);

  Process& process_;
  const caf::actor& asker_;
  const First first_;

  std::mutex telling_;  // held while something is passed on; taken before the next
  std::vector<MeshListener*> listeners_;
  bool stopped_ = false;

  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  uint64_t links_ = 0;                      // that have come up so far
  std::map<std::string, uint64_t> coming_;  // by task: the link of who has not described itself yet
  std::map<std::string, Present> present_;
  std::map<std::string, std::vector<std::string>> devices_;
  StepResult refusal_;
};

}  // namespace troupe

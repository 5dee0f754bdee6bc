// Master: the actor behind a Session. It joins three objects, each with its own state and lock:
// Members (the members of the cluster), Calls (the prepared calls and their installations) and
// RunTable (the runs under way); it owns the actors that they need, and ends them in order. When it
// dies, the steps under way are lost; workers and shards keep their state.
//
// Owner: the session. Thread: any.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/master/calls.hpp"
#include "actors/master/gate.hpp"
#include "actors/master/members.hpp"
#include "actors/master/run_table.hpp"
#include "actors/observe/step_counts.hpp"
#include "troupe/session.hpp"

namespace troupe {

// The period of checks for deadlines and stalls.
inline constexpr std::chrono::milliseconds kMasterTick{50};
// The period of attempts for an install that failed although its tasks are up.
inline constexpr std::chrono::milliseconds kInstallRetry{500};
// A closing session waits this long for other processes: for the steps it cancels, then for their
// answers that they have dropped its parts.
inline constexpr std::chrono::milliseconds kCloseTimeout{2000};

class Master {
 public:
  Master(Process& process, Graph& graph, uint64_t session);
  ~Master();

  // The program's threads enter here. stop() shuts it, and waits until they have left.
  const std::shared_ptr<Gate>& gate() const { return gate_; }
  Members& members() { return members_; }  // listens to the mesh
  Calls& calls() { return calls_; }
  RunTable& runs() { return *runs_; }

  uint64_t session() const { return session_; }
  Graph& graph() { return graph_; }
  Process& process() { return process_; }
  std::vector<std::string> devices() const;  // ours, and those of all members so far
  std::vector<RunUnderWay> under_way(std::chrono::milliseconds at_least);
  void start_trace();
  std::string stop_trace();
  // Cancels all runs, waits until they and all visits have ended, and makes all processes drop the
  // session's parts.
  void stop();

 private:
  class Door;
  using Ticker = caf::typed_actor<caf::reacts_to<caf::tick_atom>>;

  void finished(const FinishStep& message);
  void failed(const FinishStep& message);
  void later(std::function<void()> work);  // runs on the asker: the network thread may be in here
  void tick(Requests& requests);
  void take_back_parts();

  Process& process_;
  Graph& graph_;
  const uint64_t session_;
  const Asker asker_;  // sends requests to agents
  MasterDoor door_;
  Ticker clock_;
  Members members_;
  Calls calls_;
  const std::shared_ptr<RunTable> runs_;
  StepCounts counts_;
  caf::actor_clock::time_point retry_at_{};  // used by the clock actor only

  const std::shared_ptr<Gate> gate_ = std::make_shared<Gate>(*this);
  std::atomic<bool> stopped_{false};
};

}  // namespace troupe

// MasterState: what the master knows and decides, without actors, clocks or sockets. Events go in
// as calls, decisions come out as orders that the master's calls (calls.cpp) carry out. It can be
// written down and read back.
//
// An executable is a prepared call: what is fetched and fed, and where each node runs. It is
// installed on all its tasks in two rounds: first every task makes its op actors and says which of
// them receive an edge, then every task learns where its Sends go. When a task of an executable
// dies and comes back, or loses a link, the executable gets a new number and is installed anew, so
// that nothing of the old one can reach the new one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "troupe/error.hpp"

namespace troupe {

struct MemberState {
  std::string task;  // "/job:worker/task:1"
  uint64_t incarnation = 0;
  bool up = false;
  friend bool operator==(const MemberState&, const MemberState&) = default;
};

enum class InstallPhase : uint8_t { waiting, installing, installed, connecting, ready };

struct ExecutableEdge {
  int32_t edge = 0;
  std::string source_task, destination_task;
  friend bool operator==(const ExecutableEdge&, const ExecutableEdge&) = default;
};

struct ExecutableState {
  int64_t call = 0;                           // the prepared call, for good
  uint32_t executable = 0;                    // its present installation
  std::vector<std::string> fetches, feeds;    // "node:index"
  std::map<int32_t, std::string> placement;   // node id -> device
  std::vector<ExecutableEdge> edges;          // those between tasks
  std::map<std::string, InstallPhase> tasks;  // the client's own task is one of them
  std::map<int32_t, uint64_t> receivers;      // edge -> receiving op actor
  std::string error;                          // why it cannot be installed; empty otherwise
  bool ready() const;
  friend bool operator==(const ExecutableState&, const ExecutableState&) = default;
};

// What is to be done next.
struct MasterOrder {
  enum Kind : uint8_t {
    install,    // make `executable` on `task`
    connect,    // tell `task` the receivers of its edges
    uninstall,  // `executable` is gone; tell `task`
    ready,      // the call can run
    broken,     // the call cannot run now: `text` says why; it becomes ready again by itself if its
                // tasks return
    failed,     // the call can never run: `text`
  } kind;
  int64_t call = 0;
  uint32_t executable = 0;
  std::string task = {};
  std::string text = {};
  Errc code = Errc::ok;  // of `failed`
  friend bool operator==(const MasterOrder&, const MasterOrder&) = default;
};
using MasterOrders = std::vector<MasterOrder>;

class MasterState {
 public:
  MasterState() = default;
  MasterState(uint64_t session, std::string client_task)
      : session_(session), client_task_(std::move(client_task)) {}

  MasterOrders member_up(const std::string& task, uint64_t incarnation);
  MasterOrders member_down(const std::string& task, const std::string& reason);
  // A new call, or one that has failed, prepared anew. Its tasks' phases start at waiting; the
  // client's task counts as up.
  MasterOrders add(ExecutableState call);
  // `executable` is now there on `task`; edge -> receiving op actor. An answer of an older
  // installation changes nothing.
  MasterOrders installed(const std::string& task, uint32_t executable,
                         const std::map<int32_t, uint64_t>& receivers);
  MasterOrders connected(const std::string& task, uint32_t executable);
  // The task refused, did not answer, or could not reach another. A refusal is for good; a failure
  // of the world (peer_lost, timeout, stale, cancelled) is tried again when the task comes back, or
  // by retry().
  MasterOrders install_failed(const std::string& task, uint32_t executable, Errc code,
                              const std::string& text);
  // The task does not know the executable (it restarted before we heard of it), or has dropped it
  // for a link that it lost: installed anew.
  MasterOrders missing(const std::string& task, uint32_t executable);
  // Installs anew what is not installed although all its tasks are up. To be called now and then:
  // an install that failed by a passing evil has nobody else to start it again.
  MasterOrders retry();

  uint64_t session() const { return session_; }
  const std::string& client_task() const { return client_task_; }
  const std::map<std::string, MemberState>& members() const { return members_; }
  const std::map<int64_t, ExecutableState>& calls() const { return calls_; }
  const ExecutableState* find(
      uint32_t executable) const;  // nullptr: none, or an older installation
  bool is_up(const std::string& task) const;
  std::vector<std::string> missing_tasks(int64_t call) const;  // of the call, not up

  std::string to_text() const;
  friend bool operator==(const MasterState&, const MasterState&) = default;

 private:
  void reinstall(ExecutableState& call, MasterOrders& out);
  void uninstall(ExecutableState& call, MasterOrders& out);  // where it is, or is being installed
  void install_where_up(ExecutableState& call, MasterOrders& out);

  uint64_t session_ = 0;
  std::string client_task_;
  uint32_t next_executable_ = 1;
  std::map<std::string, MemberState> members_;
  std::map<int64_t, ExecutableState> calls_;
};

}  // namespace troupe

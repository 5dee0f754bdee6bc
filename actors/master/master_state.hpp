// MasterState: the knowledge and the decisions of a master, without actors, clocks or sockets.
// Events are calls; decisions are returned as orders, which Calls (calls.cpp) carries out. It can
// be written as text and read back.
//
// An executable is a prepared call: its fetches and feeds, and the device of each node. It is
// installed on all its tasks in two rounds: first every task makes its op actors and reports those
// that receive an edge, then every task learns the receivers of its Sends. When a task of an
// executable dies and returns, or loses a link, the executable gets a new number and is installed
// anew, so that no message of the old one can reach the new one.
//
// Owner: Calls. Thread: any, one at a time (the lock of Calls).
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
  int64_t call = 0;                           // the prepared call; constant
  uint32_t executable = 0;                    // its present installation
  std::vector<std::string> fetches, feeds;    // "node:index"
  std::map<int32_t, std::string> placement;   // node id -> device
  std::vector<ExecutableEdge> edges;          // the edges between tasks
  std::map<std::string, InstallPhase> tasks;  // includes the client's own task
  std::map<int32_t, uint64_t> receivers;      // edge -> receiving op actor
  std::string error;                          // why it cannot be installed; empty otherwise
  bool ready() const;
  friend bool operator==(const ExecutableState&, const ExecutableState&) = default;
};

// The next action for the owner to take.
struct MasterOrder {
  enum Kind : uint8_t {
    install,    // make `executable` on `task`
    connect,    // tell `task` the receivers of its edges
    uninstall,  // `executable` is dropped; tell `task`
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
  // Adds a new call, or one that has failed and was prepared anew. Its tasks' phases start at
  // waiting; the client's task counts as up.
  MasterOrders add(ExecutableState call);
  // Adds a call that has moved, and that the caller runs no more: takes its parts back, and
  // installs the new ones.
  MasterOrders replace(ExecutableState call);
  // `executable` is now installed on `task`; edge -> receiving op actor. Ignores answers of an
  // older installation.
  MasterOrders installed(const std::string& task, uint32_t executable,
                         const std::map<int32_t, uint64_t>& receivers);
  MasterOrders connected(const std::string& task, uint32_t executable);
  // The task refused, did not answer, or could not reach another. A refusal is final; a transient
  // failure (peer_lost, timeout, stale, cancelled) is retried when the task comes back, or by
  // retry().
  MasterOrders install_failed(const std::string& task, uint32_t executable, Errc code,
                              const std::string& text);
  // The task does not know the executable (it restarted before the mesh reported it), or has
  // dropped it because it lost a link: installs it anew.
  MasterOrders missing(const std::string& task, uint32_t executable);
  // Installs anew all calls that are not installed although all their tasks are up. Call
  // periodically: no other event retries an install that failed with a transient error.
  MasterOrders retry();

  uint64_t session() const { return session_; }
  const std::string& client_task() const { return client_task_; }
  const std::map<std::string, MemberState>& members() const { return members_; }
  const std::map<int64_t, ExecutableState>& calls() const { return calls_; }
  const ExecutableState* find(
      uint32_t executable) const;  // nullptr: none, or an older installation
  bool is_up(const std::string& task) const;
  uint64_t newest_incarnation() const;                         // of all members so far
  std::vector<std::string> missing_tasks(int64_t call) const;  // tasks of the call that are not up
  // The tasks for which the installation of a call waits: those that are not up, or else those that
  // have not answered. None: it is ready, or has not begun.
  std::vector<std::string> awaited_tasks(int64_t call) const;

  std::string to_text() const;
  friend bool operator==(const MasterState&, const MasterState&) = default;

 private:
  void reinstall(ExecutableState& call, MasterOrders& out);
  void uninstall(ExecutableState& call, MasterOrders& out);  // where it is installed or being
                                                             // installed
  void install_where_up(ExecutableState& call, MasterOrders& out);

  uint64_t session_ = 0;
  std::string client_task_;
  uint32_t next_executable_ = 1;
  std::map<std::string, MemberState> members_;
  std::map<int64_t, ExecutableState> calls_;
};

}  // namespace troupe

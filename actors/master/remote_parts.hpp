// RemoteParts: sends the workers of other processes their parts of a call: first the call's graph,
// if that process does not have it yet, then the parts, then the receivers of the Sends. It
// remembers which process has which graphs.
//
// Owner: the calls of one master. Thread: any; callbacks run on the asker's.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "actors/master/master_state.hpp"
#include "actors/master/members.hpp"
#include "actors/async/messages.hpp"
#include "troupe/graph.hpp"

namespace troupe {

class RemoteParts {
 public:
  using Receivers = std::map<int32_t, uint64_t>;  // edge -> receiving op actor
  // Called once, on the asker's thread; or never, if the asker has ended.
  using Done = std::function<void(Errc, const std::string& text, const Receivers&)>;

  // `asker` (actors/async/ask.hpp) outlives this.
  RemoteParts(const Asker& asker, uint64_t session) : asker_(asker), session_(session) {}

  // `graph`: of that version of the executable's call.
  void install(const Members::Present& member, const ExecutableState& executable,
               const Graph& graph, int64_t version, const std::string& client_device, Done done);
  // Replaces a kernel in that process's parts of the session, present and later ones.
  using Replaced = std::function<void(Errc, const std::string& text, const Became&)>;
  void become(const Members::Present& member, const std::string& node, const std::string& op,
              Replaced done);
  void remember(const std::string& node, const std::string& op);  // for processes that install
                                                                  // later
  void connect(const Members::Present& member, const ExecutableState& executable, Done done);
  // Uninstalls the executable, or all of the session for -1. `done` gets the counts of its
  // transfers.
  using Counted = std::function<void(Errc, const std::string& text, const EdgeCounts&)>;
  void uninstall(const Members::Present& member, int64_t executable, Counted done);

 private:
  std::string not_sent_yet(const Members::Present& member, int64_t call, int64_t version,
                           const Graph& graph);

  const Asker& asker_;
  const uint64_t session_;
  std::mutex mutex_;                             // guards the next two
  std::map<std::string, std::string> replaced_;  // node -> op
  // Task, incarnation -> call -> version.
  std::map<std::pair<std::string, uint64_t>, std::map<int64_t, int64_t>> sent_;
};

}  // namespace troupe

// Survey: reports of a master over the processes of its session: transfers over cut edges, one
// trace of all processes, and the waits of a stalled step. Plain functions over the agents that are
// up; they do not change the course of a session.
// Owner: none, plain functions. Thread: as each says.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <caf/all.hpp>

#include "actors/async/ask.hpp"
#include "actors/async/messages.hpp"
#include "actors/cluster/installation.hpp"
#include "actors/cluster/process.hpp"
#include "actors/cluster/agent.hpp"

namespace troupe {

// Agents by task.
using Agents = std::map<std::string, Agent>;

// Surveys ask all agents at once. An agent that is lost is left out at once, and one that is silent
// for this long is left out, too; a line in the log names it.
inline constexpr std::chrono::seconds kSurveyTimeout{5};
// Shorter for the report of a stall, as the silent process may be the cause. A process that is
// asked gives its shards half of this time.
inline constexpr std::chrono::milliseconds kStallAnswer{1000};

void add(std::map<int32_t, EdgeCount>& sum, const std::map<int32_t, EdgeCount>& counts);
std::map<int32_t, EdgeCount> from_message(const EdgeCounts& message);
EdgeCounts to_message(const std::map<int32_t, EdgeCount>& counts);

// The next four ask through `asker` (ask.hpp), and block for at most kSurveyTimeout; do not call
// them on an actor's thread.
//
// The transfers of `executable` so far from the processes of `agents`; processes that are left out
// are missing.
std::map<int32_t, EdgeCount> survey_edges(Process& process, const Asker& asker,
                                          const Agents& agents, uint64_t session,
                                          uint32_t executable);
// The waits of a run in the other processes, by task.
std::map<std::string, std::vector<std::string>> survey_waits(Process& process, const Asker& asker,
                                                             const Agents& agents,
                                                             const AskWaits& question);
// Makes every process record, and returns when all do.
void begin_trace(Process& process, const Asker& asker, const Agents& agents);
// Ends the recording and returns one Chrome trace, without the events of a process that is left
// out. Its times count from the moment this process began to record; clocks of other hosts are
// corrected by their present difference.
std::string end_trace(Process& process, const Asker& asker, const Agents& agents);

// A run that takes long, and perhaps hangs.
struct Stall {
  int64_t run = 0;
  uint32_t executable = 0;
  double seconds = 0;                  // since it began
  std::vector<std::string> open;       // tasks that have not finished it
  std::vector<std::string> waits_for;  // nodes, in this process
  bool begun = true;                   // false: `open` have not installed its call
};
// Gathers the waits of a run in this process: its `nodes`, requests for parameters, and the waits
// of the process's shards. Does not block. Calls `done` once, on the thread of `requests`.
void gather_waits(Requests& requests, Process& process, const AskWaits& question,
                  std::vector<std::string> nodes,
                  std::function<void(std::vector<std::string>)> done);
// Asks this process and all agents for their waits, and passes one line to `say`: which process
// waits for which, since when, and a remedy. Does not block; `say` is called on the thread of
// `requests`.
void report_stall(Requests& requests, Process& process, uint64_t session, const Agents& agents,
                  const Stall& stall, std::function<void(const std::string&)> say);

}  // namespace troupe

// Survey: what a master asks of the processes of its session on behalf of people: what crossed cut
// edges, one trace of all, who waits for whom. Plain functions over the agents that are up; nothing
// here changes what a session does.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <caf/all.hpp>

#include "actors/cluster/installation.hpp"
#include "actors/async/messages.hpp"
#include "actors/cluster/process.hpp"

namespace troupe {

// Worker actors by task.
using Agents = std::map<std::string, caf::actor>;

// All agents are asked at once. One that is lost is left out at once, and one that has not answered
// by then is, too: a line says so.
inline constexpr std::chrono::seconds kSurveyTimeout{5};
// The report of a stall does not wait long for those who may be the reason for it. A process that
// is asked gives its shards half of that.
inline constexpr std::chrono::milliseconds kStallAnswer{1000};

void add(std::map<int32_t, EdgeCount>& sum, const std::map<int32_t, EdgeCount>& counts);
std::map<int32_t, EdgeCount> from_message(const EdgeCounts& message);
EdgeCounts to_message(const std::map<int32_t, EdgeCount>& counts);

// The next four ask through `asker` (ask.hpp), and block, for kSurveyTimeout at most; not on an
// actor's thread.
//
// What `executable` has sent so far from the processes of `agents`; without what one that is left
// out has sent.
std::map<int32_t, EdgeCount> survey_edges(Process& process, const caf::actor& asker,
                                          const Agents& agents, uint64_t session,
                                          uint32_t executable);
// What a run waits for in the other processes, by task.
std::map<std::string, std::vector<std::string>> survey_waits(Process& process,
                                                             const caf::actor& asker,
                                                             const Agents& agents,
                                                             const AskWaits& question);
// Makes every process record, and returns when all do.
void begin_trace(Process& process, const caf::actor& asker, const Agents& agents);
// Ends that and returns one Chrome trace, without the events of a process that is left out. Its
// times count from the moment this process began to record; clocks of other hosts are corrected by
// what they show now.
std::string end_trace(Process& process, const caf::actor& asker, const Agents& agents);

// A run that takes long, and perhaps does not get on.
struct Stall {
  int64_t run = 0;
  uint32_t executable = 0;
  double seconds = 0;                  // since it began
  std::vector<std::string> open;       // tasks that have not finished it
  std::vector<std::string> waits_for;  // nodes, in this process
};
// What a run waits for in this process: `nodes` of it, requests for parameters, and what the
// process's shards wait for. On the thread of `self`; does not block. `done` is called once.
void gather_waits(caf::event_based_actor* self, Process& process, const AskWaits& question,
                  std::vector<std::string> nodes,
                  std::function<void(std::vector<std::string>)> done);
// Asks this process and all agents what they wait for, and gives `say` one line: who waits for
// whom, since when, and what to try. On the thread of `self`; does not block.
void report_stall(caf::event_based_actor* self, Process& process, uint64_t session,
                  const Agents& agents, const Stall& stall,
                  std::function<void(const std::string&)> say);

}  // namespace troupe

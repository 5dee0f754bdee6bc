// The worker actor, or agent: one per process. It owns the installations of all masters, answers
// control messages, starts and cancels steps. Every process that talks to this one monitors it;
// when the agent is gone, the process counts as gone.
//
// The agent is not restarted alone: if it dies, the process ends with its reason and its supervisor
// starts it again. The installations are lost then, and masters make them anew.
// Owner: the process. Thread: an actor; any thread may spawn it or send to it.
#pragma once

#include <caf/all.hpp>

namespace troupe {

class Process;

caf::actor spawn_worker(Process& process);

}  // namespace troupe

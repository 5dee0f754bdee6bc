// The worker actor, or agent: one per process. It owns the installations of all masters, answers
// control messages, starts and cancels steps. Every process that talks to this one monitors it;
// when it is gone, the process is.
//
// Owner: the process. Nobody restarts it alone: if it dies, the process ends with its reason and
// its supervisor starts it again. Lost then: the installations, which masters make anew.
#pragma once

#include <caf/all.hpp>

namespace troupe {

class Process;

caf::actor spawn_worker(Process& process);

}  // namespace troupe

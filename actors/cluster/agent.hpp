// The agent: one actor per process. It owns the installations of all masters, answers
// control messages, starts and cancels steps. Every process that talks to this one monitors it;
// when the agent is gone, the process counts as gone.
//
// The agent is not restarted alone: if it dies, the process ends with its reason and its supervisor
// starts it again. The installations are lost then, and masters make them anew.
// Owner: the process. Thread: an actor; any thread may spawn it or send to it.
#pragma once

#include <caf/all.hpp>

#include "actors/async/messages.hpp"
#include "actors/async/step_messages.hpp"

namespace troupe {

class Process;

// The door of a master: it sends StartStep, and takes the ends of steps.
using MasterDoor = caf::typed_actor<caf::reacts_to<FinishStep>>;

using Agent = caf::typed_actor<
    caf::replies_to<InstallGraph>::with<caf::unit_t>,     // keeps the graph of a call
    caf::replies_to<InstallParts>::with<PartsInstalled>,  // makes the executors of its parts
    caf::replies_to<ConnectParts>::with<caf::unit_t>,     // connects their Sends
    caf::replies_to<Become>::with<Became>,                // replaces a kernel
    caf::replies_to<Uninstall>::with<EdgeCounts>,         // drops an executable, or a session
    caf::replies_to<CountEdges>::with<EdgeCounts>,        // tells what it has sent
    caf::reacts_to<StartStep>,   // runs its parts; the sender gets a FinishStep
    caf::reacts_to<CancelStep>,  // ends a run
    caf::reacts_to<LinkLost>,    // from its process: ends the steps with edges over that link
    caf::replies_to<FindService>::with<caf::actor>,   // names a service or a device
    caf::replies_to<Describe>::with<Description>,     // tells its devices, executors and steps
    caf::replies_to<AskWaits>::with<Waits>,           // tells the waits of a run
    caf::replies_to<ReadClock>::with<ClockReading>,   // tells its clock
    caf::replies_to<Leave>::with<Left>,               // tells whether the sender is to wait
    caf::replies_to<SetTracing>::with<TraceEvents>>;  // begins or ends a trace

Agent spawn_agent(Process& process);

}  // namespace troupe

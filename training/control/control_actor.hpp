// The control actor: answers visitors of the cluster for the program of its process. It only passes
// requests on, to functions that any thread may call, and never waits. It keeps a bounded number of
// requests; more are refused. Should it end, visitors get no answers, and the training goes on.
//
// Owner: the parameter group, whose session ends it. Thread: an actor; any thread may send to it.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <caf/all.hpp>

#include "actors/async/messages.hpp"
#include "actors/async/when_all.hpp"
#include "training/control/training_requests.hpp"

namespace troupe {

// The service of that name in the process of a program (FindService).
inline constexpr const char* kControlService = "training";

using ControlActor = caf::typed_actor<caf::replies_to<AskTraining>::with<TrainingTold>,
                                      caf::replies_to<AskLedger>::with<LedgerTold>,
                                      caf::replies_to<ChangeTerms>::with<TermsTaken>>;

// The functions of a session; any thread calls them.
struct ControlPort {
  std::function<void(TrainingRequests::Then)> ask;
  // `out` is whole when `done` is called; its text says which rows are missing.
  std::function<void(std::shared_ptr<std::vector<PushCount>> out, WhenDone done)> ledger;
  // Throws: as set_rule() and set_rate_scale().
  std::function<void(const TermChange&, TrainingRequests::Taken)> change;
  std::function<int64_t()> number;  // of trainings that have begun
};

ControlActor spawn_control(caf::actor_system& system, ControlPort port);

}  // namespace troupe

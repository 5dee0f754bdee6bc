// The workers of a session as ReplicaPlaces sees them, and its decisions as the session's calls get
// them.
//
// Owner: TrainDriver; before the first step the training. Thread: the training thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "actors/master/master.hpp"
#include "training/loop/replica_places.hpp"
#include "troupe/training.hpp"

namespace troupe {

// The tasks that the nodes of each tower name, and their replicas; without the jobs ps and client,
// and without tasks with queues, whose elements a move would lose.
ReplicaPlaces::Named named_tasks(const std::vector<const Tower*>& towers);

// The places before the first step, where a task that is not there has another place at once. Gives
// them to the calls of the session, which are prepared afterwards. `stays`: why nothing moves;
// empty: it moves after `move_after`. Throws: Error(invalid_argument) naming a task that is not
// there if nothing moves.
ReplicaPlaces first_places(Master& master, const std::string& stays,
                           const std::vector<const Tower*>& towers,
                           ReplicaPlaces::Millis move_after, ReplicaPlaces::Millis now,
                           const std::function<void(const std::string&)>& tell);

// Tells the places which tasks are there. One that lacks a device that another named task has is
// unfit.
ReplicaActions see_workers(Master& master, ReplicaPlaces& places, ReplicaPlaces::Millis now);

// Gives the session's calls the places, if something has moved. Members that leave, and of which
// nothing is wanted any more, are let go: first they lose what they have.
void take_places(Master& master, const ReplicaPlaces& places, const ReplicaActions& actions);

}  // namespace troupe

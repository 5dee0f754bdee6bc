// Calls of functions from a step. A call is a step of the program that is the function's body. It
// is armed when its turn comes, runs on the thread that its caller ran on, and hands its results to
// its caller's inbox. The state of a call inside a call is on the heap, and no thread's stack grows
// with the depth.
//
// Owner: the step. Thread: the step's owner thread.
#pragma once

#include <cstdint>
#include <string>

#include "actors/engine/step.hpp"

namespace troupe {

// As Step::own(), with all calls that the step makes.
bool own_with_calls(Step& step, bool may_use_lanes);
// A Call node fires.
void call(Step& step, uint32_t node);
// A step that is a call has ended: its caller gets the results, and the executor the step.
void return_to_caller(Step& step);
// The results of a call are there.
void returned(Step& step, Arrival& arrival);
// For error texts: "; in f, 3 calls deep"; empty outside of calls.
std::string calls_under_way(Step& step);

}  // namespace troupe

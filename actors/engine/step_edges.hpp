// Things that leave a step and come back to it: values sent and received, firings of async kernels,
// lane jobs, copies to and from a device's memory.
//
// Owner: the step. Thread: the step's owner thread.
#pragma once

#include <cstdint>

#include "actors/engine/step.hpp"

namespace troupe {

// A Send node fires. A dead one tells the receiver, and does not settle.
void send(Step& step, uint32_t node);
// The kernel of an async node starts; its answer is an arrival.
void start_async(Step& step, uint32_t node);
// The loop has ended on a device that the host cannot touch: the number of its iterations is
// copied there, and then its driver settles.
void copy_count(Step& step, size_t loop);
// Before a step on a queueing device ends, the queue must have done its work. Asks for that.
void fence(Step& step);

// Something has come through the inbox.
void handle(Step& step, Arrival& arrival);
// A value of an edge, or the word that there will be none.
void receive(Step& step, Arrival& arrival);

}  // namespace troupe

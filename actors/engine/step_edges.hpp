// Things that leave a step and come back to it: values sent and received, firings of async kernels,
// lane jobs, kernels and copies of a device, results of loops and calls.
//
// Owner: the step. Thread: the step's owner thread.
#pragma once

#include <vector>

#include "actors/engine/step.hpp"

namespace troupe {

// A Send node fires. A dead one tells the receiver, and does not settle.
void send(Step& step, Firing node);
// The kernel of an async node starts; its answer is an arrival.
void start_async(Step& step, Firing node);
// The outputs of a node, of which the last one is copied to memory that the host cannot touch. Then
// the node settles.
void copy_in(Step& step, Firing node, std::vector<Tensor> outputs);
// A loop or a call has ended: its node has these outputs.
void give_back(Step& step, Firing node, std::vector<Tensor> outputs);
// The node's device launches its kernel.
void launch(Step& step, Firing node);
// Before a step on a queueing device ends, the queue must have done its work. Asks for that.
void fence(Step& step);

// Something has come through the inbox.
void handle(Step& step, Arrival& arrival);
// A value of an edge, or the word that there will be none.
void receive(Step& step, Arrival& arrival);

}  // namespace troupe

// Queues: tuples of tensors that wait between steps, in the memory of one process. Implemented in
// ops/state/queue.cpp and in one file for each op.
//
// A queue begins to exist when the first of its ops runs, and ends with the session or the process
// that it is in: what it held is lost then. Waiting for an element, or for room, holds no thread. A
// step that is cancelled while it waits takes nothing and leaves nothing. Those that put in are
// served in the order in which they came, and so are those that take; but an insert that begins no
// element of a barrier does not wait behind one that needs room for it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

enum class QueueKind : uint8_t {
  fifo,      // first in, first out
  shuffle,   // a random element, keyed by (seed, name, how many have left before)
  priority,  // the smallest first component, which is i64[]; among equals the oldest element
  padding,   // fifo; components may have sizes of -1, and several are padded with zeros at the end
};
const char* to_string(QueueKind kind);

struct QueueOptions {
  QueueKind kind = QueueKind::fifo;
  int64_t capacity = 32;  // elements, >= 1; who puts in more waits
  // shuffle: this many stay until the queue is closed, so that there is something to choose from.
  int64_t min_after_dequeue = 0;  // in [0, capacity)
  int64_t seed = 0;               // shuffle
};

// What the functions below need to know of a queue. A program may make it twice, with the same
// name: it is the same queue if the rest is the same, too.
struct Queue {
  Graph* graph = nullptr;
  std::string name;               // unique in a session and process; one line of text, not empty
  std::vector<TensorType> types;  // of an element's components
  QueueOptions options;
  std::string device;  // all its ops run there: that of the scope it was made in
};

// Throws: Error(invalid_argument) for a name that is empty or has control characters, options out
// of range, no components, sizes that are not known (unless they are to be padded), or a priority
// queue whose first component is not i64[].
Queue make_queue(Graph& graph, std::vector<TensorType> types, QueueOptions options = {},
                 std::string_view name = "queue", Origin at = Origin::here());

// Each of these gives the number of elements that it leaves in the queue, i64[].
// One element. Fails the step with Errc::cancelled if the queue is closed.
Output enqueue(const Queue& queue, const std::vector<Output>& element, Origin at = Origin::here());
// One element for each row: components [n, ...]. All of them or, if the step ends early, none. More
// rows than the queue's capacity are refused: while building, or by the step that has them.
Output enqueue_many(const Queue& queue, const std::vector<Output>& elements,
                    Origin at = Origin::here());
// No enqueue after this, and once what is there has left, no dequeue: Errc::end_of_data. What waits
// for room is put in all the same, or fails with Errc::cancelled if `cancel_pending`.
Output close_queue(const Queue& queue, bool cancel_pending = false, Origin at = Origin::here());
Output queue_size(const Queue& queue, Origin at = Origin::here());

// The components of one element. Fails the step with Errc::end_of_data if the queue is closed and
// has none.
std::vector<Output> dequeue(const Queue& queue, Origin at = Origin::here());
// `count` elements, stacked: [count, ...]. Waits until there are as many. Throws:
// Error(invalid_argument) for more than the capacity less min_after_dequeue.
std::vector<Output> dequeue_many(const Queue& queue, int64_t count, Origin at = Origin::here());
// The same, [-1, ...]; of a closed queue the last elements, at least one.
std::vector<Output> dequeue_up_to(const Queue& queue, int64_t count, Origin at = Origin::here());

// A barrier: elements whose components come one by one, each under the element's key. An element
// leaves when all of its components are there; those that were begun first leave first.
struct Barrier {
  Graph* graph = nullptr;
  std::string name;  // unique in a session and process; one line of text, not empty
  std::vector<TensorType> types;
  int64_t capacity = 0;
  std::string device;
};

// `capacity`: how many elements there may be, complete or not; who begins one more waits. Throws:
// Error(invalid_argument) as make_queue() does.
Barrier make_barrier(Graph& graph, std::vector<TensorType> types, int64_t capacity = 1024,
                     std::string_view name = "barrier", Origin at = Origin::here());
// Component number `component` of the elements of `keys`, i64[n]: values [n, ...]. Gives the number
// of complete elements, i64[]. Fails the step with Errc::invalid_argument for a component that its
// element has already, and with Errc::cancelled for a new key if the barrier is closed.
Output barrier_insert(const Barrier& barrier, int64_t component, Output keys, Output values,
                      Origin at = Origin::here());
// The keys, i64[count], and components, [count, ...], of complete elements. Waits until there are
// as many; fails with Errc::end_of_data if the barrier is closed and there will not be. Throws:
// Error(invalid_argument) for more than the capacity.
std::vector<Output> barrier_take(const Barrier& barrier, int64_t count, Origin at = Origin::here());
// No new keys after this; elements that were begun can still be completed, or go, and with them who
// waits for room, if `cancel_pending`. Gives the number of complete elements, i64[].
Output close_barrier(const Barrier& barrier, bool cancel_pending = false,
                     Origin at = Origin::here());

}  // namespace troupe

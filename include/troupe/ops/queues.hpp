// Queues: tuples of tensors that wait between steps, in the memory of one process. Implemented in
// ops/state/queue.cpp and in one file for each op.
//
// A queue begins when the first of its ops runs, and ends with its session or process, which loses
// its content. Waiting for an element, or for room, holds no thread. A step that is cancelled while
// it waits takes nothing and leaves nothing. Enqueues are served in the order of arrival, and so
// are dequeues; but an insert that begins no element of a barrier does not wait behind one that
// needs room for it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

enum class QueueKind : uint8_t {
  fifo,      // first in, first out
  shuffle,   // a random element, keyed by (seed, name, number of elements that have left before)
  priority,  // the smallest first component, which is i64[]; among equals the oldest element
  padding,   // fifo; components may have sizes of -1, and several are padded with zeros at the end
};
const char* to_string(QueueKind kind);

struct QueueOptions {
  QueueKind kind = QueueKind::fifo;
  int64_t capacity = 32;  // elements, >= 1; an enqueue into a full queue waits
  // shuffle: this many stay until the queue is closed, so that the choice stays random.
  int64_t min_after_dequeue = 0;  // in [0, capacity)
  int64_t seed = 0;               // shuffle
};

// A queue, as the functions below need it. A program may make it twice with the same name: it is
// the same queue if the other fields are the same, too.
struct Queue {
  Graph* graph = nullptr;
  std::string name;               // unique in a session and process; one line of text, not empty
  std::vector<TensorType> types;  // of an element's components
  QueueOptions options;
  std::string device;  // the device of all its ops: that of the scope it was made in
};

// Throws: Error(invalid_argument) for a name that is empty or has control characters, options out
// of range, no components, unknown sizes (except in a padding queue), or a priority queue whose
// first component is not i64[].
Queue make_queue(Graph& graph, std::vector<TensorType> types, QueueOptions options = {},
                 std::string_view name = "queue", Origin at = Origin::here());

// Each of these returns the number of elements that it leaves in the queue, i64[].
// Adds one element. Fails the step with Errc::cancelled if the queue is closed.
Output enqueue(const Queue& queue, const std::vector<Output>& element, Origin at = Origin::here());
// Adds one element for each row: components [n, ...]. All of them or, if the step ends early, none.
// More rows than the queue's capacity are refused: while building, or by the step that has them.
Output enqueue_many(const Queue& queue, const std::vector<Output>& elements,
                    Origin at = Origin::here());
// No enqueue after this; once the remaining elements have left, a dequeue fails with
// Errc::end_of_data. An enqueue that waits for room still succeeds, or fails with Errc::cancelled
// if `cancel_pending`.
Output close_queue(const Queue& queue, bool cancel_pending = false, Origin at = Origin::here());
Output queue_size(const Queue& queue, Origin at = Origin::here());

// The components of one element. Fails the step with Errc::end_of_data if the queue is closed and
// empty.
std::vector<Output> dequeue(const Queue& queue, Origin at = Origin::here());
// `count` elements, stacked: [count, ...]. Waits until there are that many. Throws:
// Error(invalid_argument) for more than the capacity less min_after_dequeue.
std::vector<Output> dequeue_many(const Queue& queue, int64_t count, Origin at = Origin::here());
// The same, [-1, ...]; from a closed queue the remaining elements, at least one.
std::vector<Output> dequeue_up_to(const Queue& queue, int64_t count, Origin at = Origin::here());

// A barrier: elements whose components arrive one by one, each under the element's key. An element
// leaves when all of its components are there; elements begun first leave first.
struct Barrier {
  Graph* graph = nullptr;
  std::string name;  // unique in a session and process; one line of text, not empty
  std::vector<TensorType> types;
  int64_t capacity = 0;
  std::string device;
};

// `capacity`: the most elements at once, complete or not; an insert that begins one more waits.
// Throws: Error(invalid_argument) as make_queue() does.
Barrier make_barrier(Graph& graph, std::vector<TensorType> types, int64_t capacity = 1024,
                     std::string_view name = "barrier", Origin at = Origin::here());
// Inserts component number `component` of the elements of `keys`, i64[n]: values [n, ...]. Returns
// the number of complete elements, i64[]. Fails the step with Errc::invalid_argument for a
// component that its element has already, and with Errc::cancelled for a new key if the barrier is
// closed.
Output barrier_insert(const Barrier& barrier, int64_t component, Output keys, Output values,
                      Origin at = Origin::here());
// The keys, i64[count], and components, [count, ...], of complete elements. Waits until there are
// that many; fails with Errc::end_of_data if the barrier is closed and can never have them. Throws:
// Error(invalid_argument) for more than the capacity.
std::vector<Output> barrier_take(const Barrier& barrier, int64_t count, Origin at = Origin::here());
// No new keys after this. Elements that were begun can still be completed; with `cancel_pending`
// they are dropped, and so are the inserts that wait for room. Returns the number of complete
// elements, i64[].
Output close_barrier(const Barrier& barrier, bool cancel_pending = false,
                     Origin at = Origin::here());

}  // namespace troupe

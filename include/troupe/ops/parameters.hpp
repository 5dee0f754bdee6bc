// Changes of parameter values by the program itself, without gradients: assignments, sums, rows,
// counters. Implemented in ops/state/write_parameter.cpp. Also gradients by rows, and tables whose
// rows are made on first touch.
//
// Such a parameter is not trained: a graph that also pushes gradients to it is refused. Shards
// apply a write when it arrives, and it counts once however often its step is repeated. Checkpoints
// hold the values, and a restore returns to those of its step.
//
// A write belongs to the replica that its parameter was read for and to the step of its run, as a
// push does: a run with nothing but a write is a step of its own. In one step
//   - it runs after all reads of the parameter for its replica that were in the graph when it was
//     added; so they see the values before it, and the step after this one sees those after it;
//   - it runs after the writes to the parameter for its replica that were added before it; in a
//     branch, only after those of the same frame and of the frames around it;
//   - any other order needs control inputs.
// Under the synchronous rule a step that is repeated, after the loss of a process, reads the same
// values as the first time. Only one replica may write to a parameter; another one is refused when
// its write arrives, as the values would depend on the order. Another replica's reads see the
// writes of the steps before if the writer's pushes run after its writes
// (ParameterGradient::reads), and its own pushes after its reads; otherwise they may see the
// newest, or fail as `stale`. Under the asynchronous rule any replica may write, in the order of
// arrival, and reads see the newest values.
//
// All throw: Error(invalid_argument) for an argument that is no parameter, for types that do not
// fit, and within a loop, as a write happens once a step. None has outputs or a gradient.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "troupe/graph.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {

// parameter = value, of its dtype and shape.
Output assign(Output parameter, Output value, const std::vector<int32_t>& control_inputs = {},
              Origin at = Origin::here());
// parameter += value; integers wrap around. Not for bool.
Output assign_add(Output parameter, Output value, const std::vector<int32_t>& control_inputs = {},
                  Origin at = Origin::here());
// Row indices[i...] of the parameter = values[i..., :], or += it, in the order of the indices: of
// equal ones the last is assigned, and all are added. indices: i32 or i64, each in [0, rows).
Output scatter_update(Output parameter, Output indices, Output values,
                      const std::vector<int32_t>& control_inputs = {}, Origin at = Origin::here());
Output scatter_add(Output parameter, Output indices, Output values,
                   const std::vector<int32_t>& control_inputs = {}, Origin at = Origin::here());

// The number of times `update` has run in earlier steps: i64[], a parameter of that name.
struct Counter {
  Output value;
  Output update;
};
Counter counter(Graph& graph, std::string_view name, int64_t first = 0, Origin at = Origin::here());

// ----------------------------------------------------------------------------------------------
// Gradients by rows. A gather leaves most rows of its gradient 0, so a gradient that comes only
// from gathers is pushed to shards as (indices, values), and the shards touch no other row.
//
// In a graph such a gradient is the output of gather_gradient(), or a sum of several for the same
// parameter. apply_gradients(), clip_by_norm(), clip_by_global_norm() and add_weight_decay() find
// its rows, and the node that would fill the other rows with zeros is left out. That node runs, and
// the gradient is as large as its parameter, only if another op reads it.
//
// Shards update the rows that were pushed and leave all others as they are, with their
// accumulators: for momentum, Adam and the others that is what TensorFlow calls a lazy or sparse
// update. t still counts all updates of a slice. Rows that several replicas push are summed in
// replica order, a replica without a row counting as 0, and divided by the number of replicas. sgd,
// adagrad and ftrl (with initial weights of 0) give the same result as with the zeros. LAMB, whose
// norms are over all rows, gets the zeros. For sgd the rows are pushed as they were gathered, and a
// row that was gathered twice is updated twice, in that order; for all others equal rows are summed
// first.

// ----------------------------------------------------------------------------------------------
// Tables whose rows are made on first touch, for more rows than memory holds. Implemented in
// ops/state/parameter.cpp; docs/large_tables.md has the limits.

// The first values of a row: a pure function of the table's name, seed, row and column.
struct FirstRows {
  enum class Kind : uint8_t { constant, uniform, normal };
  Kind kind = Kind::constant;
  double a = 0, b = 0;  // constant: a; uniform: in [a, b); normal: mean a, standard deviation b
  int64_t seed = 0;
  friend bool operator==(const FirstRows&, const FirstRows&) = default;
};
struct TableOptions {
  FirstRows first = {};
  int64_t forget_after = 0;  // updates of the table without a touch of the row; 0: never
  int64_t rows_max = 0;  // at least 64, 1/64 of them for each group of rows by hash; 0: no limit
  friend bool operator==(const TableOptions&, const TableOptions&) = default;
};

// A parameter [rows, columns...], f32 or f64, for gather() alone. An update makes the rows that it
// touches, with accumulators as new, and then forgets rows by `forget_after`, and the least
// recently touched ones beyond `rows_max`; a forgotten row is new at its next touch. A read makes
// no row: it gets the first values of one that is not there. Throws: Error(invalid_argument) for a
// shape without rows or of more than 2^56 elements, options out of range, and a name in use.
Output table_parameter(Graph& graph, std::string_view name, const Shape& shape,
                       const TableOptions& options = {}, DType dtype = DType::f32,
                       Origin at = Origin::here());

// ----------------------------------------------------------------------------------------------
// Queues: tuples of tensors that wait between steps, in the memory of one process. Implemented in
// ops/state/queue.cpp and in one file for each op.
//
// A queue begins when the first of its ops runs, and ends with its session or process, which loses
// its content. Waiting for an element, or for room, holds no thread. A step that is cancelled while
// it waits takes nothing and leaves nothing. Enqueues are served in the order of arrival, and so
// are dequeues; but an insert that begins no element of a barrier does not wait behind one that
// needs room for it.

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

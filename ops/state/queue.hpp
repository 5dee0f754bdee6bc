// What the queue ops share: the queue itself, how its description stands in a node's attributes,
// and how their kernels find it.
//
// A QueueState decides, a plain state machine; it is called under the mutex of its SharedState.
#pragma once

#include <deque>
#include <mutex>
#include <set>

#include "devices/resources.hpp"
#include "ops/support/node.hpp"
#include "ops/support/refused.hpp"
#include "troupe/op.hpp"
#include "troupe/ops/queues.hpp"

namespace troupe {

using QueueElement = std::vector<Tensor>;  // one tensor for each component

// Who waits for the queue: the firing of an op. Its step may have ended meanwhile.
class QueueWaiter {
 public:
  virtual ~QueueWaiter() = default;
  virtual bool waits() const = 0;  // false: nothing may be given to it
  // False: its step had ended, and nothing was taken. Throws: what making the outputs throws.
  virtual bool accept(std::vector<Tensor> outputs) = 0;
  virtual void fail(Errc code, const std::string& text) = 0;
};

class QueueState {
 public:
  explicit QueueState(Queue queue) : queue_(std::move(queue)) {}

  const Queue& description() const { return queue_; }
  int64_t size() const { return static_cast<int64_t>(elements_.size()); }

  // Puts all of `elements` in as soon as there is room, each as one; tells `who` the size.
  void enqueue(std::vector<QueueElement> elements, std::shared_ptr<QueueWaiter> who);
  // Gives `who` the components of `count` elements, stacked if `stacked`. partial: fewer, but at
  // least one, if the queue is closed.
  struct Wish {
    int64_t count = 1;
    bool stacked = false;
    bool partial = false;
  };
  void dequeue(const Wish& wish, std::shared_ptr<QueueWaiter> who);
  void close(bool cancel_pending);
  void end();  // fails all who wait

 private:
  struct Numbered {
    uint64_t number;  // in the order of arrival
    QueueElement element;
  };
  struct Putting {
    std::vector<QueueElement> elements;
    std::shared_ptr<QueueWaiter> who;
  };
  struct Taking {
    Wish wish;
    std::shared_ptr<QueueWaiter> who;
  };

  void settle();  // serves whoever can be served
  bool put_next();
  bool take_next();
  QueueKind kind() const { return queue_.options.kind; }
  bool from_front() const { return kind() == QueueKind::fifo || kind() == QueueKind::padding; }
  static bool is_later(const Numbered& a, const Numbered& b);
  std::vector<size_t> choose(int64_t count);
  void keep(int64_t count);
  void remove(int64_t count);
  std::vector<Tensor> outputs_of(const std::vector<size_t>& chosen, const Wish& wish) const;
  std::string named() const { return "the queue " + queue_.name; }

  const Queue queue_;
  // In the order of arrival; priority: a heap, the first to leave in front; shuffle: in no order.
  std::deque<Numbered> elements_;
  std::deque<Putting> putting_;
  std::deque<Taking> taking_;
  uint64_t entered_ = 0, left_ = 0;  // elements so far
  bool closed_ = false;
};

// A state machine that steps of a session share: one call at a time. Waiters are answered under its
// mutex, which is taken before that of their step.
template <class State>
class SharedState final : public Resource {
 public:
  template <class Description>
  explicit SharedState(Description description) : state_(std::move(description)) {}
  void end() override {
    with([](State& state) { state.end(); });
  }
  template <class F>
  void with(const F& f) {
    std::lock_guard lock(mutex_);
    f(state_);
  }

 private:
  std::mutex mutex_;
  State state_;
};

// ---- the description in attributes ----

// What is wrong with the name of a queue or a barrier; empty: nothing. It stands in errors and
// logs.
std::string fault_of_name(const std::string& name);

std::vector<AttrSpec> queue_attrs(std::vector<AttrSpec> more = {});
Queue queue_of(const Node& node);  // Throws: InternalError for attributes that say nothing
// Throws: Error from ctx for a description that make_queue() would refuse.
void check_queue(const InferContext& ctx);
void describe_in(Attrs& attrs, const Queue& queue);
bool same_state(const Queue& a, const Queue& b);  // two nodes may share the state of one name

// A node of a Queue or a Barrier, where its ops run. `kind`: "queue" or "barrier".
template <class Described>
Output add_node_of(const Described& of, const char* kind, std::string_view op,
                   std::vector<Output> inputs, Attrs attrs, Origin at) {
  if (!of.graph)
    throw refused(op, at, "the ", kind, " is undefined; pass what make_", kind, "() returned");
  describe_in(attrs, of);
  const Graph::Scope there = of.graph->scope({.device = of.device}, at);
  return of.graph->add(
      {.op = op, .inputs = std::move(inputs), .attrs = std::move(attrs), .name = {}}, at);
}
inline Output add_queue_node(const Queue& queue, std::string_view op, std::vector<Output> inputs,
                             Attrs attrs, Origin at) {
  return add_node_of(queue, "queue", op, std::move(inputs), std::move(attrs), at);
}

std::vector<DType> infer_size_dtype(const InferContext& ctx);  // of the ops whose output is the
std::vector<Shape> infer_size_shape(const InferContext& ctx);  // number of elements

// The types of components, one after the other: dtype, number of dimensions, sizes. Back: nothing
// for numbers that do not say types.
std::vector<int64_t> types_to_integers(const std::vector<TensorType>& types);
std::optional<std::vector<TensorType>> types_from_integers(const std::vector<int64_t>& numbers);

// ---- kernels ----

std::shared_ptr<QueueWaiter> waiter_of(const std::shared_ptr<AsyncContext>& ctx);
// What the steps of this firing's session keep. Throws: Error(invalid_argument) outside a session.
Resources& resources_of(const AsyncContext& ctx);
// Calls f(state) for the state that the steps of a firing's session share under that name, or fails
// the firing if it has begun as something else than `wanted`.
template <class State, class Described, class F>
void with_state_of(const std::shared_ptr<AsyncContext>& ctx, const char* kind,
                   const Described& wanted, const F& f) {
  const auto resource = resources_of(*ctx).template get<SharedState<State>>(
      detail::concat(kind, " ", wanted.name),
      [&] { return std::make_shared<SharedState<State>>(wanted); });
  resource->with([&](State& state) {
    if (!same_state(state.description(), wanted))
      return ctx->fail(Errc::invalid_argument,
                       detail::concat(describe(ctx->node()), ": the ", kind, " ", wanted.name,
                                      " has other types or options in another op of this "
                                      "session; make it once, or give it another name"));
    f(state);
  });
}
template <class F>
void with_queue(const std::shared_ptr<AsyncContext>& ctx, const F& f) {
  with_state_of<QueueState>(ctx, "queue", queue_of(ctx->node()), f);
}
// Row `row` of [n, ...], without a copy.
Tensor row_of(const Tensor& rows, int64_t row);
// Tensors of one dtype and number of dimensions, stacked: [n, ...]; zeros where one is smaller than
// the largest. Requires: there is one.
Tensor stack_padded(const std::vector<const Tensor*>& parts);

}  // namespace troupe

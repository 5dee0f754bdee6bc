// Shared by the queue ops: the queue itself, its description in a node's attributes, and the
// kernels' access to it.
//
// A QueueState is a plain state machine, called under the mutex of its SharedState.
#pragma once

#include <deque>
#include <mutex>
#include <set>

#include "devices/resources.hpp"
#include "ops/support/node.hpp"
#include "ops/support/refused.hpp"
#include "troupe/op.hpp"
#include "troupe/ops/parameters.hpp"

namespace troupe {

using QueueElement = std::vector<Tensor>;  // one tensor for each component

// An op's firing that waits for the queue. Its step may have ended meanwhile.
class QueueWaiter {
 public:
  virtual ~QueueWaiter() = default;
  virtual bool waits() const = 0;  // false: give it nothing
  // Returns false if its step has ended and nothing was taken. Throws: the errors of making the
  // outputs.
  virtual bool accept(std::vector<Tensor> outputs) = 0;
  virtual void fail(Errc code, const std::string& text) = 0;
};

class QueueState {
 public:
  explicit QueueState(Queue queue) : queue_(std::move(queue)) {}

  const Queue& description() const { return queue_; }
  int64_t size() const { return static_cast<int64_t>(elements_.size()); }

  // Puts all of `elements` in as soon as there is room for them together; tells `who` the size.
  void enqueue(std::vector<QueueElement> elements, std::shared_ptr<QueueWaiter> who);
  // Gives `who` the components of `count` elements, stacked if `stacked`. partial: a closed queue
  // gives fewer, but at least one.
  struct Wish {
    int64_t count = 1;
    bool stacked = false;
    bool partial = false;
  };
  void dequeue(const Wish& wish, std::shared_ptr<QueueWaiter> who);
  void close(bool cancel_pending);
  void end();  // fails all waiters

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

  void settle();  // serves every waiter that can be served
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
  // fifo and padding: in the order of arrival; priority: a heap, with the first to leave in front;
  // shuffle: unordered.
  std::deque<Numbered> elements_;
  std::deque<Putting> putting_;
  std::deque<Taking> taking_;
  uint64_t entered_ = 0, left_ = 0;  // numbers of elements so far
  bool closed_ = false;
};

// A state machine shared by the steps of a session: one call at a time. Waiters are answered under
// its mutex, which is taken before the mutex of their step.
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

// The fault of a queue's or barrier's name; empty if there is none. Errors and logs contain the
// name.
std::string fault_of_name(const std::string& name);

std::vector<AttrSpec> queue_attrs(std::vector<AttrSpec> more = {});
inline const char* kind_of(const Queue&) { return "queue"; }
// The fault of a description; empty if there is none.
std::string fault_of(const Queue& queue);
std::optional<Queue> read_described(const Node& node, const Queue&);
// The same four functions describe a barrier (ops/state/barrier.hpp). Throws: InternalError for
// malformed attributes.
template <class Described>
Described described_by(const Node& node) {
  std::optional<Described> read = read_described(node, Described());
  TROUPE_CHECK(read, describe(node), " does not describe a ", kind_of(Described()));
  return std::move(*read);
}
// Throws: Error from ctx, with `unreadable` or the fault, if make_...() would refuse the
// description.
template <class Described>
void check_described(const InferContext& ctx, const char* unreadable) {
  const std::optional<Described> read = read_described(ctx.node(), Described());
  if (!read) throw ctx.error(unreadable);
  if (const std::string fault = fault_of_name(read->name); !fault.empty())
    throw ctx.error("its ", kind_of(*read), " ", fault);
  if (const std::string fault = fault_of(*read); !fault.empty())
    throw ctx.error("the ", kind_of(*read), " ", read->name, " ", fault);
}
// Throws: Error(invalid_argument) for a name or a description with a fault.
template <class Described>
Described checked(Described made, Origin at) {
  if (const std::string fault = fault_of_name(made.name); !fault.empty())
    throw Error(Errc::invalid_argument, "a ", kind_of(made), " made at ", at.file, ":", at.line,
                " ", fault);
  if (const std::string fault = fault_of(made); !fault.empty())
    throw Error(Errc::invalid_argument, kind_of(made), " ", made.name, " made at ", at.file, ":",
                at.line, " ", fault);
  return made;
}

inline Queue queue_of(const Node& node) { return described_by<Queue>(node); }
inline void check_queue(const InferContext& ctx) {
  check_described<Queue>(ctx, "its attributes kind and types do not describe a queue");
}
void describe_in(Attrs& attrs, const Queue& queue);
// true if two nodes may share the state of one name
bool same_state(const Queue& a, const Queue& b);

// Adds a node for a Queue or a Barrier, on the device where its ops run.
template <class Described>
Output add_node_of(const Described& of, std::string_view op, std::vector<Output> inputs,
                   Attrs attrs, Origin at) {
  if (!of.graph)
    throw refused(op, at, "the ", kind_of(of), " is undefined; pass what make_", kind_of(of),
                  "() returned");
  describe_in(attrs, of);
  const Graph::Scope there = of.graph->scope({.device = of.device}, at);
  return of.graph->add(
      {.op = op, .inputs = std::move(inputs), .attrs = std::move(attrs), .name = {}}, at);
}
// An op that asks a queue or barrier, and completes when that has answered.
Op state_op(Op op, void (*start)(std::shared_ptr<AsyncContext>));

// The types of the components in sequence: dtype, number of dimensions, sizes. The inverse returns
// nothing if the numbers are no types.
std::vector<int64_t> types_to_integers(const std::vector<TensorType>& types);
std::optional<std::vector<TensorType>> types_from_integers(const std::vector<int64_t>& numbers);

// ---- kernels ----

std::shared_ptr<QueueWaiter> waiter_of(const std::shared_ptr<AsyncContext>& ctx);
// The state that the steps of this firing's session share. Throws: Error(invalid_argument) outside
// a session.
Resources& resources_of(const AsyncContext& ctx);
// Calls f(state) for the state of that name that the session's steps share. Fails the firing if
// that state was made from another description than `wanted`.
template <class State, class Described, class F>
void with_state_of(const std::shared_ptr<AsyncContext>& ctx, const Described& wanted, const F& f) {
  const char* const kind = kind_of(wanted);
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
  with_state_of<QueueState>(ctx, queue_of(ctx->node()), f);
}
// Row `row` of [n, ...], without copying.
Tensor row_of(const Tensor& rows, int64_t row);
// Stacks tensors of one dtype and number of dimensions to [n, ...], with zeros where one is smaller
// than the largest. Requires: at least one.
Tensor stack_padded(const std::vector<const Tensor*>& parts);

}  // namespace troupe

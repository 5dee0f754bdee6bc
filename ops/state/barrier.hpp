// Shared by the barrier ops: the barrier itself, and its description in a node's attributes. Like
// the QueueState of ops/state/queue.hpp, a BarrierState is a plain state machine that is found by
// name.
#pragma once

#include <map>

#include "ops/state/queue.hpp"

namespace troupe {

class BarrierState {
 public:
  explicit BarrierState(Barrier barrier) : barrier_(std::move(barrier)) {}

  const Barrier& description() const { return barrier_; }
  int64_t ready() const { return static_cast<int64_t>(ready_.size()); }
  // Sets component `component` of the elements `keys` to `values`; of all of them, or, if it fails,
  // of none.
  void insert(size_t component, std::vector<int64_t> keys, std::vector<Tensor> values,
              std::shared_ptr<QueueWaiter> who);
  void take(int64_t count, std::shared_ptr<QueueWaiter> who);
  void close(bool cancel_pending);
  void end();

 private:
  struct Entry {
    uint64_t number;  // position in the order of beginning
    size_t missing;
    QueueElement parts;
  };
  struct Inserting {
    size_t component;
    std::vector<int64_t> keys;
    std::vector<Tensor> values;
    std::shared_ptr<QueueWaiter> who;
    bool in_time;  // the insert came before the barrier was closed
  };
  struct Taking {
    int64_t count;
    std::shared_ptr<QueueWaiter> who;
  };
  enum class Fit : uint8_t { now, later, never };

  Fit fits(const Inserting& insert) const;  // never: `who` was told the reason
  bool needs_room(const Inserting& insert) const;
  void put(Inserting insert);
  void settle();
  bool insert_waiting();
  bool take_next();
  bool may_complete() const { return !closed_ || !begun_.empty() || !inserting_.empty(); }

  const Barrier barrier_;
  std::map<int64_t, Entry> begun_;                              // by key
  std::map<uint64_t, std::pair<int64_t, QueueElement>> ready_;  // by number: key, components
  std::deque<Inserting> inserting_;                             // waiting for room
  std::deque<Taking> taking_;
  uint64_t entered_ = 0;
  bool closed_ = false;
};

std::vector<AttrSpec> barrier_attrs(std::vector<AttrSpec> more = {});
inline const char* kind_of(const Barrier&) { return "barrier"; }
std::string fault_of(const Barrier& barrier);
std::optional<Barrier> read_described(const Node& node, const Barrier&);
inline Barrier barrier_of(const Node& node) { return described_by<Barrier>(node); }
inline void check_barrier(const InferContext& ctx) {
  check_described<Barrier>(ctx, "its attribute types does not describe components");
}
void describe_in(Attrs& attrs, const Barrier& barrier);
bool same_state(const Barrier& a, const Barrier& b);
template <class F>
void with_barrier(const std::shared_ptr<AsyncContext>& ctx, const F& f) {
  with_state_of<BarrierState>(ctx, barrier_of(ctx->node()), f);
}

}  // namespace troupe

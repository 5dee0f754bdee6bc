// The state machine of a barrier, its description in attributes, and make_barrier() of
// troupe/ops/parameters.hpp.
#include "ops/state/barrier.hpp"

#include <algorithm>
#include <set>

namespace troupe {

// ---- the state machine ----

void BarrierState::insert(size_t component, std::vector<int64_t> keys, std::vector<Tensor> values,
                          std::shared_ptr<QueueWaiter> who) {
  inserting_.push_back(
      {component, std::move(keys), std::move(values), std::move(who), /*in_time=*/!closed_});
  settle();
}

void BarrierState::take(int64_t count, std::shared_ptr<QueueWaiter> who) {
  if (count > barrier_.capacity)
    return who->fail(
        Errc::invalid_argument,
        detail::concat("the barrier ", barrier_.name, " holds at most ", barrier_.capacity,
                       " elements, and ", count, " are to be taken; give it a larger capacity"));
  taking_.push_back({count, std::move(who)});
  settle();
}

void BarrierState::close(bool cancel_pending) {
  closed_ = true;
  if (cancel_pending) {
    begun_.clear();
    for (const Inserting& insert : std::exchange(inserting_, {}))
      insert.who->fail(Errc::cancelled, "the barrier " + barrier_.name + " was closed");
  }
  settle();
}

void BarrierState::end() {
  const std::string text = "the session of the barrier " + barrier_.name + " has ended";
  for (const Inserting& insert : std::exchange(inserting_, {}))
    insert.who->fail(Errc::cancelled, text);
  for (const Taking& take : std::exchange(taking_, {})) take.who->fail(Errc::cancelled, text);
}

BarrierState::Fit BarrierState::fits(const Inserting& insert) const {
  const auto refuse = [&](Errc code, const auto&... parts) {
    insert.who->fail(code, detail::concat("the barrier ", barrier_.name, " ", parts...));
    return Fit::never;
  };
  const auto count = static_cast<int64_t>(insert.keys.size());
  if (count > barrier_.capacity)  // elements that were begun wait for this insert, too
    return refuse(Errc::invalid_argument, "holds at most ", barrier_.capacity, " elements, and ",
                  count, " are given a component at once; give it a larger capacity");
  std::set<int64_t> seen;
  int64_t more = 0;
  for (const int64_t key : insert.keys) {
    if (!seen.insert(key).second)
      return refuse(Errc::invalid_argument, "is given key ", key, " twice at once");
    const auto it = begun_.find(key);
    if (it == begun_.end()) {
      if (!insert.in_time) return refuse(Errc::cancelled, "is closed; key ", key, " is new");
      ++more;
    } else if (it->second.parts[insert.component].defined()) {
      return refuse(Errc::invalid_argument, "has component ", insert.component, " of key ", key,
                    " already");
    }
  }
  const auto there = static_cast<int64_t>(begun_.size() + ready_.size());
  return there + more > barrier_.capacity ? Fit::later : Fit::now;
}

bool BarrierState::needs_room(const Inserting& insert) const {
  return std::any_of(insert.keys.begin(), insert.keys.end(),
                     [&](int64_t key) { return !begun_.count(key); });
}

void BarrierState::put(Inserting insert) {
  // The number of elements that become complete is needed before any change, so that an insert of
  // an ended step leaves nothing behind.
  const auto completes = std::count_if(insert.keys.begin(), insert.keys.end(), [&](int64_t key) {
    const auto it = begun_.find(key);
    return (it == begun_.end() ? barrier_.types.size() : it->second.missing) == 1;
  });
  if (!insert.who->accept({Tensor::scalar(ready() + static_cast<int64_t>(completes))})) return;
  for (size_t i = 0; i < insert.keys.size(); ++i) {
    auto it = begun_.find(insert.keys[i]);
    if (it == begun_.end()) {
      Entry fresh{entered_++, barrier_.types.size(), QueueElement(barrier_.types.size())};
      it = begun_.emplace(insert.keys[i], std::move(fresh)).first;
    }
    Entry& entry = it->second;
    entry.parts[insert.component] = std::move(insert.values[i]);
    if (--entry.missing > 0) continue;
    ready_[entry.number] = {it->first, std::move(entry.parts)};
    begun_.erase(it);
  }
}

void BarrierState::settle() {
  const auto gone = [](const auto& waiting) { return !waiting.who->waits(); };
  std::erase_if(inserting_, gone);
  std::erase_if(taking_, gone);
  while (insert_waiting() || take_next()) {
  }
}

// An insert that needs no room, because it completes elements that were begun, does not wait behind
// one that does.
bool BarrierState::insert_waiting() {
  bool one_waits = false;
  for (auto it = inserting_.begin(); it != inserting_.end(); ++it) {
    const Fit fit = fits(*it);
    if (fit == Fit::later || (fit == Fit::now && one_waits && needs_room(*it))) {
      one_waits = true;
      continue;
    }
    Inserting insert = std::move(*it);
    inserting_.erase(it);
    if (fit == Fit::now) put(std::move(insert));
    return true;
  }
  return false;
}

bool BarrierState::take_next() {
  if (taking_.empty()) return false;
  const int64_t count = taking_.front().count;
  if (ready() < count && may_complete()) return false;
  const auto who = std::move(taking_.front().who);
  taking_.pop_front();
  if (ready() < count) {
    who->fail(Errc::end_of_data,
              detail::concat("the barrier ", barrier_.name, " is closed and has ", ready(), " of ",
                             count, " elements left"));
    return true;
  }
  const auto last = std::next(ready_.begin(), count);
  std::vector<int64_t> keys;
  std::vector<std::vector<const Tensor*>> parts(barrier_.types.size());
  for (auto it = ready_.begin(); it != last; ++it) {
    keys.push_back(it->second.first);
    for (size_t c = 0; c < parts.size(); ++c) parts[c].push_back(&it->second.second[c]);
  }
  try {
    std::vector<Tensor> outputs = {Tensor::of<int64_t>(keys, Shape{count})};
    for (const auto& component : parts) outputs.push_back(stack_padded(component));
    if (who->accept(std::move(outputs))) ready_.erase(ready_.begin(), last);
  } catch (const std::exception& e) {
    const auto* error = dynamic_cast<const Error*>(&e);
    who->fail(error ? error->code() : Errc::out_of_memory, e.what());
  }
  return true;
}

// ---- the description in attributes ----

std::string fault_of(const Barrier& barrier) {
  if (barrier.capacity < 1)
    return detail::concat("wants a capacity of at least 1, got ", barrier.capacity);
  if (barrier.types.empty()) return "wants the types of its components, got none";
  for (const TensorType& type : barrier.types)
    if (type.dtype == DType::none || !type.shape.is_known() || type.shape.ndim() >= Shape::kNdimMax)
      return detail::concat("wants components of known types with at most ", Shape::kNdimMax - 1,
                            " dimensions, got ", type);
  return {};
}

std::optional<Barrier> read_described(const Node& node, const Barrier&) {
  const auto types = types_from_integers(node.attr<std::vector<int64_t>>("types"));
  if (!types) return std::nullopt;
  return Barrier{.graph = nullptr,
                 .name = node.attr<std::string>("barrier"),
                 .types = *types,
                 .capacity = node.attr<int64_t>("capacity"),
                 .device = {}};
}

std::vector<AttrSpec> barrier_attrs(std::vector<AttrSpec> more) {
  more.insert(more.begin(), {{"barrier", AttrKind::text},
                             {"types", AttrKind::integers},
                             {"capacity", AttrKind::integer}});
  return more;
}

Barrier make_barrier(Graph& graph, std::vector<TensorType> types, int64_t capacity,
                     std::string_view name, Origin at) {
  return checked(Barrier{.graph = &graph,
                         .name = std::string(name),
                         .types = std::move(types),
                         .capacity = capacity,
                         .device = graph.device()},
                 at);
}

void describe_in(Attrs& attrs, const Barrier& barrier) {
  attrs["barrier"] = barrier.name;
  attrs["types"] = types_to_integers(barrier.types);
  attrs["capacity"] = barrier.capacity;
}

bool same_state(const Barrier& a, const Barrier& b) {
  return a.types == b.types && a.capacity == b.capacity;
}

}  // namespace troupe

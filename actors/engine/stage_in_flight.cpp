// Compiles loops for several iterations at a time: copies of their nodes behind those of the
// partition (actors/engine/stage.hpp: Copies). A copy is joined to the one that has the iteration
// after; the last one to the first. What runs them is activation_in_flight.cpp.
//
// What a copy has of a loop in the body is a loop like others (Stage::loop_in_copy), whose
// nodes are those of the copy; for the rest of the copy it is its driver alone.
//
// Most loops never overlap. So what a stage may need of copies is reserved when it is compiled,
// which takes addresses but no memory, and a loop's copies are made when overlapping first pays,
// while steps run: nothing that these read moves.
#include <algorithm>
#include <set>
#include <tuple>

#include "actors/engine/stage.hpp"

namespace troupe {

// The nodes of a copy, counted from its first: who fires after whom there, and in the next copy.
class CopyPlan {
 public:
  explicit CopyPlan(size_t nodes) : missing(nodes), readers_(nodes), next_readers_(nodes) {}
  void add(uint32_t from, uint32_t to) {
    if (readers_[from].insert(to).second) ++missing[to];
  }
  void add_next(uint32_t from, uint32_t to) {
    if (next_readers_[from].insert(to).second) ++missing[to];
  }
  // Made ready in this order, the last one fires first: so the older iteration goes first.
  std::vector<uint32_t> readers(uint32_t from, uint32_t copy, uint32_t next_copy) const {
    std::vector<uint32_t> out;
    for (auto to = next_readers_[from].rbegin(); to != next_readers_[from].rend(); ++to)
      out.push_back(next_copy + *to);
    for (auto to = readers_[from].rbegin(); to != readers_[from].rend(); ++to)
      out.push_back(copy + *to);
    return out;
  }

  std::vector<int32_t> missing;

 private:
  std::vector<std::set<uint32_t>> readers_, next_readers_;
};

namespace {

constexpr int64_t kCopiesMax = 64;                   // a bit for each in LoopState
constexpr size_t kCopiedNodesMax = size_t{1} << 16;  // of one loop, in all copies of copies

// What others may see, or the order of which they may. What is saved is the step's own.
bool has_effect(const FiringNode& node) {
  if (node.kind == NodeKind::save || node.kind == NodeKind::restore) return false;
  return node.kind == NodeKind::async || node.kind == NodeKind::call ||
         (node.view && node.view->node->op->stateful);
}

}  // namespace

FiringNode::FiringNode(const FiringNode& other)
    : run(other.run.load(std::memory_order_relaxed)),
      view(other.view),
      out(other.out),
      n_to(other.n_to),
      n_in(other.n_in),
      n_out(other.n_out),
      kind(other.kind),
      in_place(other.in_place),
      leaves(other.leaves),
      costly(other.costly.load(std::memory_order_relaxed)) {
  std::copy(std::begin(other.in), std::end(other.in), in);
  std::copy(std::begin(other.to), std::end(other.to), to);
}

// The same value in all iterations: a constant, or captured by the loop.
bool Stage::same_in_all(const Loop& loop, uint32_t slot) const {
  if (slot < loop.slot_begin || slot >= loop.slot_end) return true;
  const uint32_t origin = slot - loop.slot_begin + loop.origin_slot_begin;
  return uses_[origin] >= kUncounted &&
         (captured_by_[origin] == kNoLoop || captured_by_[origin] == loop.origin);
}

// The slot that a copy has in its place.
uint32_t Stage::slot_in(const Loop& loop, uint32_t copy, uint32_t slot) const {
  return same_in_all(loop, slot) ? slot : slot + loop.slot_shift(copy);
}

// For a node of a loop in the loop: the driver of that one, which is all that an iteration sees.
uint32_t Stage::stands_for(const Loop& loop, uint32_t i) const {
  if (&loops_[loop_of_[i]] == &loop) return i;
  for (uint32_t k : loop.inner)
    if (loops_[k].has(i)) return loops_[k].driver;
  throw InternalError("the ", place_of(i), " is not in the loop ", name_of(loop.driver));
}

void Stage::reserve_copies() {
  own_nodes_ = nodes_max_ = nodes_.size();
  slots_made_ = slots_max_ = uses_.size();
  // With one lane nothing runs beside anything else. Of a body there are as many activations as
  // calls.
  const bool may = host_.lanes > 1 && host_.device->on_host() && !is_body();
  std::vector<Reserve> needs(loops_.size());
  Reserve all;
  for (size_t l = loops_.size(); may && l-- > 0;) {
    if (!may_overlap(loops_[l])) continue;
    plan_copies(loops_[l], orders_of(loops_[l]).size());
    needs[l] = reserve_for(loops_[l], needs);
    all.add(needs[l], 1);
  }
  nodes_max_ += all.nodes;
  slots_max_ += all.slots;
  loops_max_ += all.loops;
  for (size_t l = 0; l < loops_max_; ++l) copied_.emplace_back(false);
  if (nodes_max_ == own_nodes_) return;
  nodes_.reserve(nodes_max_);
  original_of_.reserve(nodes_max_ - own_nodes_);
  role_of_.reserve(nodes_max_);
  loop_of_.reserve(nodes_max_);
  loops_.reserve(loops_max_);
  more_.reserve(more_.size() + all.listed);
}

// How many copies there may be, and what they need: each with the copies of the loops in it.
Stage::Reserve Stage::reserve_for(Loop& loop, const std::vector<Reserve>& needs) {
  Copies& copies = loop.copies;
  const size_t orders = copies.passes - loop.initial.size();
  // At most: each node reads and is read as in the loop, a variable's pass is read by all who
  // read it or run after it, and in each order a node reads a pass and is read by a gate.
  Reserve each{copies.stride, copies.slot_stride, loop.inner.size(),
               loop.initial.size() + loop.after.size() + 3 * orders};
  for (uint32_t i = loop.begin; i < loop.end; ++i)
    each.listed += nodes_[i].n_to + 2 * size_t{nodes_[i].n_in} + 2 * orders;
  for (uint32_t k : loop.inner) each.add(needs[k], 1);
  const size_t count = std::min(static_cast<size_t>(std::min(loop.in_flight, kCopiesMax)),
                                kCopiedNodesMax / each.nodes);
  copies.count = count < 2 ? 0 : static_cast<uint32_t>(count);
  Reserve all;
  all.add(each, copies.count);
  return all;
}

void Stage::make_copies(size_t l) {
  if (has_copies(l)) return;
  std::lock_guard lock(mutex_);
  if (has_copies(l)) return;
  Loop& loop = loops_[l];
  Copies& copies = loop.copies;
  const CopyPlan plan = plan_of(loop, orders_of(loop));
  copies.begin = static_cast<uint32_t>(nodes_.size());
  copies.loop_begin = static_cast<uint32_t>(loops_.size());
  copies.slot_begin = static_cast<uint32_t>(slots_made_);
  slots_made_ += size_t{copies.count} * copies.slot_stride;
  copies.missing = plan.missing;
  for (uint32_t p = copies.stride; p-- > copies.passes;)
    if (const uint32_t i = loop.begin + (p - copies.passes);
        plan.missing[p] == 0 && (i >= loop.end || loop_of_[i] == l))
      copies.first_ready.push_back(p);
  for (uint32_t p = 0; p < copies.passes; ++p) ++copies.missing[p];  // that it is armed
  const auto places = [this] {
    return std::tuple(nodes_.data(), more_.data(), loops_.data(), loop_of_.data(), role_of_.data(),
                      original_of_.data());
  };
  const auto before = places();
  for (uint32_t c = 0; c < copies.count; ++c) fill_copy(l, c, plan);
  TROUPE_CHECK(before == places(), "copies have moved what is fired");
  copied_[l].store(true, std::memory_order_release);
}

size_t Stage::copied_nodes() const {
  std::lock_guard lock(mutex_);
  return nodes_.size() - own_nodes_;
}

// It is all here, with the loops in it.
bool Stage::may_overlap(const Loop& loop) const {
  if (!loop.home || loop.in_flight < 2 || !loop.acks.empty()) return false;
  return std::none_of(nodes_.begin() + loop.begin, nodes_.begin() + loop.end,
                      [](const FiringNode& node) {
                        return node.kind == NodeKind::send || node.kind == NodeKind::source ||
                               node.kind == NodeKind::queued;
                      });
}

// Nodes that an iteration fires only after the one before has fired all of the same list: those
// with effects; what keeps values for a gradient, and what takes them. If a body takes what it has
// kept itself, in loops one after the other, then both are one list: it has one stack.
std::vector<std::vector<uint32_t>> Stage::orders_of(const Loop& loop) const {
  std::vector<uint32_t> effects, saves, restores;
  std::set<uint32_t> kept, taken;
  const auto add = [&](std::vector<uint32_t>& order, uint32_t i) {
    if (const uint32_t seen = stands_for(loop, i); order.empty() || order.back() != seen)
      order.push_back(seen);
  };
  for (uint32_t i = loop.begin; i < loop.end; ++i) {
    const FiringNode& node = nodes_[i];
    if (node.kind == NodeKind::save) {
      add(saves, i);
      kept.insert(role_of_[i]);
    } else if (node.kind == NodeKind::restore) {
      add(restores, i);
      taken.insert(role_of_[i]);
    } else if (has_effect(node)) {
      add(effects, i);
    }
  }
  if (std::any_of(taken.begin(), taken.end(), [&](uint32_t one) { return kept.count(one) > 0; })) {
    saves.insert(saves.end(), restores.begin(), restores.end());
    restores.clear();
  }
  std::vector<std::vector<uint32_t>> out;
  for (auto* order : {&effects, &saves, &restores})
    if (!order->empty()) out.push_back(std::move(*order));
  return out;
}

void Stage::plan_copies(Loop& loop, size_t orders) {
  Copies& copies = loop.copies;
  copies.passes = static_cast<uint32_t>(loop.initial.size() + orders);
  copies.stride = copies.passes + (loop.end - loop.begin) + static_cast<uint32_t>(orders);
  copies.slot_stride = loop.slot_end - loop.slot_begin;
  copies.repeatable = std::none_of(
      nodes_.begin() + loop.begin, nodes_.begin() + loop.end,
      [](const FiringNode& node) { return node.kind == NodeKind::restore || has_effect(node); });
  for (uint32_t i = loop.begin; i < loop.end; ++i)
    if (nodes_[i].kind == NodeKind::save) copies.saves.push_back(role_of_[i]);
  copies.shared = shared_in(loop);
}

std::vector<std::pair<uint32_t, uint32_t>> Stage::shared_in(const Loop& loop) const {
  std::vector<std::pair<uint32_t, uint32_t>> out;
  for (uint32_t slot = loop.slot_begin; slot < loop.slot_end; ++slot) {
    const uint32_t origin = slot - loop.slot_begin + loop.origin_slot_begin;
    if (!same_in_all(loop, slot)) continue;
    out.emplace_back(captured_by_[origin] == kNoLoop ? origin : slot, origin);
  }
  return out;
}

// Who fires after whom.
CopyPlan Stage::plan_of(const Loop& loop, const std::vector<std::vector<uint32_t>>& orders) const {
  const auto variables = static_cast<uint32_t>(loop.initial.size());
  const uint32_t gates = loop.place_in_copy(loop.end);
  CopyPlan plan(loop.copies.stride);
  std::map<uint32_t, uint32_t> made_by;  // slot -> place in the copy
  for (uint32_t v = 0; v < variables; ++v) made_by[loop.initial[v].second] = v;
  for (uint32_t i = loop.begin; i < loop.end; ++i) {
    const FiringNode& node = nodes_[i];
    for (uint32_t k = 0; k < node.n_out; ++k) made_by[node.out + k] = loop.place_in_copy(i);
    for (uint32_t k = 0; k < node.n_to; ++k)
      plan.add(loop.place_in_copy(i), loop.place_in_copy(readers_of(node)[k]));
  }
  // Who reads a variable, or runs after it, waits for its pass.
  for (uint32_t i = loop.begin; i < loop.end; ++i)
    for (uint32_t p = 0; p < nodes_[i].n_in; ++p)
      if (const auto by = made_by.find(inputs_of(nodes_[i])[p]);
          by != made_by.end() && by->second < variables)
        plan.add(by->second, loop.place_in_copy(stands_for(loop, i)));
  for (const auto& [v, i] : loop.after) plan.add(v, loop.place_in_copy(stands_for(loop, i)));
  for (uint32_t v = 0; v < variables; ++v)
    if (const auto by = made_by.find(loop.next[v]); by != made_by.end())
      plan.add_next(by->second, v);
  for (uint32_t t = 0; t < orders.size(); ++t) {
    const uint32_t pass = variables + t, gate = gates + t;
    for (uint32_t i : orders[t]) {
      plan.add(pass, loop.place_in_copy(i));
      plan.add(loop.place_in_copy(i), gate);
    }
    plan.add(gate, loop.place_in_copy(loop.turn));
    plan.add_next(gate, pass);
  }
  return plan;
}

void Stage::fill_copy(size_t l, uint32_t c, const CopyPlan& plan) {
  const Loop& loop = loops_[l];
  const Copies& copies = loop.copies;
  const uint32_t first = copies.begin + c * copies.stride,
                 next = copies.begin + (c + 1) % copies.count * copies.stride;
  for (uint32_t p = 0; p < copies.stride; ++p) {
    const bool copied = p >= copies.passes && p < loop.place_in_copy(loop.end);
    const uint32_t from = copied ? loop.begin + (p - copies.passes) : loop.turn;
    original_of_.push_back(original(from));
    FiringNode& node = copied ? nodes_.emplace_back(nodes_[from]) : nodes_.emplace_back();
    if (copied) {
      shift_slots(loop, c, node);
      const bool of_loop = node.kind == NodeKind::loop || node.kind == NodeKind::turn ||
                           node.kind == NodeKind::branch;
      role_of_.push_back(of_loop ? counterpart(l, c, role_of_[from]) : role_of_[from]);
      loop_of_.push_back(counterpart(l, c, loop_of_[from]));
    } else {
      const bool variable = p < loop.initial.size();
      node.kind = p < copies.passes ? NodeKind::pass : NodeKind::gate;
      node.n_out = variable ? 1 : 0;
      if (variable) node.out = loop.initial[p].second + loop.slot_shift(c);
      role_of_.push_back(static_cast<uint32_t>(l));
      loop_of_.push_back(static_cast<uint32_t>(l));
    }
    node.n_to = put_list(plan.readers(p, first, next), node.to);
  }
  for (uint32_t k : loop.inner) loops_.push_back(loop_in_copy(l, c, loops_[k]));
}

void Stage::shift_slots(const Loop& loop, uint32_t c, FiringNode& node) {
  node.out += loop.slot_shift(c);
  std::vector<uint32_t> in(inputs_of(node), inputs_of(node) + node.n_in);
  for (uint32_t& slot : in) slot = slot_in(loop, c, slot);
  put_list(in, node.in);
}

// What copy `c` of loop `l` has for a loop that is in it, for that one itself, or for none.
uint32_t Stage::counterpart(size_t l, uint32_t c, uint32_t loop) const {
  const std::vector<uint32_t>& inner = loops_[l].inner;
  const auto place = std::lower_bound(inner.begin(), inner.end(), loop);
  if (place == inner.end() || *place != loop) return loop;
  return loops_[l].loop_in(c, static_cast<size_t>(place - inner.begin()));
}

// What names and types it has, its origin knows.
Stage::Loop Stage::loop_in_copy(size_t l, uint32_t c, const Loop& loop) const {
  const Loop& around = loops_[l];
  const uint32_t shift = around.slot_shift(c);
  const auto node = [&](uint32_t i) { return around.node_in(c, i); };
  const auto slot = [&](uint32_t s) { return slot_in(around, c, s); };
  Loop out{.origin = loop.origin,
           .origin_begin = loop.origin_begin,
           .origin_slot_begin = loop.origin_slot_begin,
           .begin = node(loop.begin),
           .end = node(loop.end),
           .slot_begin = loop.slot_begin + shift,
           .slot_end = loop.slot_end + shift,
           .driver = node(loop.driver),
           .turn = node(loop.turn),
           .again = node(loop.again),
           .home = loop.home,
           .in_flight = loop.in_flight,
           .direct = loop.direct,
           .unsure = loop.unsure,
           .opener = loop.opener};
  for (uint32_t k : loop.inner) out.inner.push_back(counterpart(l, c, k));
  for (const auto& [from, to] : loop.captured) out.captured.emplace_back(slot(from), slot(to));
  for (const auto& [from, to] : loop.initial) out.initial.emplace_back(slot(from), slot(to));
  for (uint32_t next : loop.next) out.next.push_back(slot(next));
  for (uint32_t i : loop.first_ready) out.first_ready.push_back(node(i));
  for (const auto& [v, i] : loop.after) out.after.emplace_back(v, node(i));
  out.copies = {.count = loop.copies.count,
                .stride = loop.copies.stride,
                .slot_stride = loop.copies.slot_stride,
                .passes = loop.copies.passes,
                .repeatable = loop.copies.repeatable,
                .saves = loop.copies.saves};
  out.copies.shared = shared_in(out);
  return out;
}

}  // namespace troupe

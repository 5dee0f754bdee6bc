// Compiles loops for several iterations at a time: copies of their nodes behind those of the
// partition (actors/stage.hpp: Copies). A copy is joined to the one that has the iteration after;
// the last one to the first. What runs them is activation_in_flight.cpp.
//
// Most loops never overlap. So what a stage may need of copies is reserved when it is compiled,
// which takes addresses but no memory, and a loop's copies are made when overlapping first pays,
// while steps run: nothing that these read moves.
#include <algorithm>
#include <set>

#include "actors/stage.hpp"

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

constexpr int64_t kCopiesMax = 64;                     // a bit for each in LoopState
constexpr int64_t kCopiedNodesMax = int64_t{1} << 16;  // of one loop, in all copies

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

bool Stage::same_in_all(uint32_t slot) const { return uses_[slot] >= kUncounted; }

void Stage::reserve_copies() {
  own_nodes_ = nodes_max_ = nodes_.size();
  slots_made_ = slots_max_ = uses_.size();
  for (size_t l = 0; l < loops_.size(); ++l) copied_.emplace_back(false);
  // With one lane nothing runs beside anything else. Of a body there are as many activations as
  // calls.
  if (host_.lanes <= 1 || !host_.device->on_host() || is_body()) return;
  size_t listed = more_.size();
  for (Loop& loop : loops_) {
    if (!may_overlap(loop)) continue;
    const size_t orders = orders_of(loop).size();
    plan_copies(loop, orders);
    nodes_max_ += size_t{loop.copies.count} * loop.copies.stride;
    slots_max_ += size_t{loop.copies.count} * loop.copies.slot_stride;
    // At most: each node reads and is read as in the loop, a variable's pass is read by all who
    // read it or run after it, and in each order a node reads a pass and is read by a gate.
    size_t lists = loop.initial.size() + loop.after.size() + 3 * orders;
    for (uint32_t i = loop.begin; i < loop.end; ++i)
      lists += nodes_[i].n_to + 2 * size_t{nodes_[i].n_in} + 2 * orders;
    listed += loop.copies.count * lists;
  }
  if (nodes_max_ == own_nodes_) return;
  nodes_.reserve(nodes_max_);
  original_of_.reserve(nodes_max_ - own_nodes_);
  more_.reserve(listed);
}

void Stage::make_copies(size_t l) {
  if (has_copies(l)) return;
  std::lock_guard lock(mutex_);
  if (has_copies(l)) return;
  Loop& loop = loops_[l];
  Copies& copies = loop.copies;
  const CopyPlan plan = plan_of(loop, orders_of(loop));
  copies.begin = static_cast<uint32_t>(nodes_.size());
  copies.slot_begin = static_cast<uint32_t>(slots_made_);
  slots_made_ += size_t{copies.count} * copies.slot_stride;
  copies.missing = plan.missing;
  for (uint32_t p = copies.stride; p-- > copies.passes;)
    if (plan.missing[p] == 0) copies.first_ready.push_back(p);
  for (uint32_t p = 0; p < copies.passes; ++p) ++copies.missing[p];  // that it is armed
  for (uint32_t slot = loop.slot_begin; slot < loop.slot_end; ++slot)
    if (same_in_all(slot)) copies.shared.push_back(slot);
  const std::pair before{nodes_.data(), more_.data()};
  for (uint32_t c = 0; c < copies.count; ++c) fill_copy(loop, c, plan);
  TROUPE_CHECK(before == std::pair(nodes_.data(), more_.data()), "copies have moved what is fired");
  copied_[l].store(true, std::memory_order_release);
}

size_t Stage::copied_nodes() const {
  std::lock_guard lock(mutex_);
  return nodes_.size() - own_nodes_;
}

// It is all here, and has no loop inside it.
bool Stage::may_overlap(const Loop& loop) const {
  if (!loop.home || loop.in_flight < 2 || !loop.acks.empty()) return false;
  return std::none_of(nodes_.begin() + loop.begin, nodes_.begin() + loop.end,
                      [](const FiringNode& node) {
                        return node.kind == NodeKind::send || node.kind == NodeKind::source ||
                               node.kind == NodeKind::queued || node.kind == NodeKind::loop;
                      });
}

// Nodes that an iteration fires only after the one before has fired all of the same list: those
// with effects; what keeps values for a gradient, and what takes them.
std::vector<std::vector<uint32_t>> Stage::orders_of(const Loop& loop) const {
  std::vector<uint32_t> effects, saves, restores;
  for (uint32_t i = loop.begin; i < loop.end; ++i) {
    const FiringNode& node = nodes_[i];
    if (node.kind == NodeKind::save)
      saves.push_back(i);
    else if (node.kind == NodeKind::restore)
      restores.push_back(i);
    else if (has_effect(node))
      effects.push_back(i);
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
  const int64_t count =
      std::min({loop.in_flight, kCopiesMax, kCopiedNodesMax / int64_t{copies.stride}});
  copies.count = count < 2 ? 0 : static_cast<uint32_t>(count);
  copies.repeatable = std::none_of(
      nodes_.begin() + loop.begin, nodes_.begin() + loop.end,
      [](const FiringNode& node) { return node.kind == NodeKind::restore || has_effect(node); });
  for (uint32_t i = loop.begin; i < loop.end; ++i)
    if (nodes_[i].kind == NodeKind::save) copies.saves.push_back(role_of_[i]);
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
        plan.add(by->second, loop.place_in_copy(i));
  for (const auto& [v, i] : loop.after) plan.add(v, loop.place_in_copy(i));
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

void Stage::fill_copy(Loop& loop, uint32_t c, const CopyPlan& plan) {
  const Copies& copies = loop.copies;
  const uint32_t first = copies.begin + c * copies.stride, shift = loop.slot_shift(c),
                 next = copies.begin + (c + 1) % copies.count * copies.stride;
  for (uint32_t p = 0; p < copies.stride; ++p) {
    const bool copied = p >= copies.passes && p < loop.place_in_copy(loop.end);
    const uint32_t from = copied ? loop.begin + (p - copies.passes) : loop.turn;
    original_of_.push_back(from);
    FiringNode& node = copied ? nodes_.emplace_back(nodes_[from]) : nodes_.emplace_back();
    if (copied) {
      shift_slots(loop, shift, node);
    } else {
      const bool variable = p < loop.initial.size();
      node.kind = p < copies.passes ? NodeKind::pass : NodeKind::gate;
      node.n_out = variable ? 1 : 0;
      if (variable) node.out = loop.initial[p].second + shift;
    }
    node.n_to = put_list(plan.readers(p, first, next), node.to);
  }
}

void Stage::shift_slots(const Loop& loop, uint32_t shift, FiringNode& node) {
  node.out += shift;
  std::vector<uint32_t> in(inputs_of(node), inputs_of(node) + node.n_in);
  for (uint32_t& slot : in)
    if (slot >= loop.slot_begin && slot < loop.slot_end && !same_in_all(slot)) slot += shift;
  put_list(in, node.in);
}

}  // namespace troupe

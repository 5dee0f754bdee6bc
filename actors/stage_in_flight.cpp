// Compiles loops for several iterations at a time: copies of their nodes behind those of the
// partition (actors/stage.hpp: Copies). A copy is joined to the one that has the iteration after;
// the last one to the first. What runs them is activation_in_flight.cpp.
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

void copy_node(const FiringNode& from, FiringNode& to) {
  to.run.store(from.run.load(std::memory_order_relaxed), std::memory_order_relaxed);
  to.view = from.view;
  to.n_in = from.n_in;
  to.n_out = from.n_out;
  to.out = from.out;
  std::copy(std::begin(from.in), std::end(from.in), to.in);
  to.n_to = from.n_to;
  std::copy(std::begin(from.to), std::end(from.to), to.to);
  to.kind = from.kind;
  to.in_place = from.in_place;
  to.leaves = from.leaves;
  to.costly.store(from.costly.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

// A list of a node: in it, or past four in the stage's table.
uint32_t put_list(const std::vector<uint32_t>& list, uint32_t (&own)[4],
                  std::vector<uint32_t>& table) {
  if (list.size() <= 4) {
    std::copy(list.begin(), list.end(), own);
  } else {
    own[0] = static_cast<uint32_t>(table.size());
    table.insert(table.end(), list.begin(), list.end());
  }
  return static_cast<uint32_t>(list.size());
}

}  // namespace

bool Stage::same_in_all(uint32_t slot) const { return uses_[slot] >= kUncounted; }

void Stage::compile_copies(const std::vector<uint32_t>& fires) {
  own_nodes_ = nodes_.size();
  own_slots_ = uses_.size();
  // With one lane nothing runs beside anything else. Of a body there are as many activations as
  // calls.
  if (host_.lanes <= 1 || !host_.device->on_host() || is_body()) return;
  std::vector<std::vector<std::vector<uint32_t>>> orders;
  size_t nodes = own_nodes_, slots = own_slots_;
  for (Loop& loop : loops_) {
    orders.push_back(orders_of(loop));
    if (!may_overlap(loop)) continue;
    plan_copies(loop, orders.back().size());
    loop.copies.begin = static_cast<uint32_t>(nodes);
    loop.copies.slot_begin = static_cast<uint32_t>(slots);
    nodes += size_t{loop.copies.count} * loop.copies.stride;
    slots += size_t{loop.copies.count} * loop.copies.slot_stride;
  }
  if (nodes == own_nodes_) return;
  grow(nodes, slots);
  for (uint32_t l = 0; l < loops_.size(); ++l)
    if (loops_[l].copies.count > 0) fill_copies(l, plan_of(l, fires, orders[l]));
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
    else if (node.kind == NodeKind::async || node.kind == NodeKind::call ||
             (node.view && node.view->node->op->stateful))
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
}

void Stage::grow(size_t nodes, size_t slots) {
  std::vector<FiringNode> more(nodes);
  for (size_t i = 0; i < own_nodes_; ++i) copy_node(nodes_[i], more[i]);
  nodes_ = std::move(more);
  names_.resize(nodes);
  send_of_.resize(nodes, -1);
  role_of_.resize(nodes, kNoLoop);
  edge_memory_.resize(nodes, nullptr);
  missing_.resize(nodes, 0);
  original_of_.resize(nodes - own_nodes_);
  constants_.resize(slots);
  uses_.resize(slots, 0);
}

// Who fires after whom.
CopyPlan Stage::plan_of(uint32_t number, const std::vector<uint32_t>& fires,
                        const std::vector<std::vector<uint32_t>>& orders) const {
  const Loop& loop = loops_[number];
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
  const PartLoop& part = partition_.loops[number];
  for (auto p = static_cast<size_t>(part.begin); p < static_cast<size_t>(part.driver); ++p) {
    const std::vector<int32_t>& after = partition_.nodes[p].controls;
    for (uint32_t v = 0; v < variables && fires[p] < own_nodes_; ++v)
      if (std::find(after.begin(), after.end(), part.variables[v].node) != after.end())
        plan.add(v, loop.place_in_copy(fires[p]));
  }
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

void Stage::fill_copies(uint32_t number, CopyPlan plan) {
  Loop& loop = loops_[number];
  Copies& copies = loop.copies;
  for (uint32_t p = copies.stride; p-- > copies.passes;)
    if (plan.missing[p] == 0) copies.first_ready.push_back(p);
  for (uint32_t p = 0; p < copies.passes; ++p) ++plan.missing[p];  // that it is armed
  for (uint32_t slot = loop.slot_begin; slot < loop.slot_end; ++slot)
    if (same_in_all(slot)) copies.shared.push_back(slot);
  for (uint32_t c = 0; c < copies.count; ++c) {
    const uint32_t first = copies.begin + c * copies.stride, shift = loop.slot_shift(c),
                   next = copies.begin + (c + 1) % copies.count * copies.stride;
    for (uint32_t slot = loop.slot_begin; slot < loop.slot_end; ++slot)
      if (!same_in_all(slot)) uses_[slot + shift] = uses_[slot];
    for (uint32_t p = 0; p < copies.stride; ++p) {
      const bool copied = p >= copies.passes && p < loop.place_in_copy(loop.end);
      const uint32_t i = first + p, from = copied ? loop.begin + (p - copies.passes) : loop.turn;
      FiringNode& node = nodes_[i];
      names_[i] = names_[from];
      edge_memory_[i] = edge_memory_[from];
      role_of_[i] = copied ? role_of_[from] : number;
      original_of_[i - own_nodes_] = from;
      missing_[i] = plan.missing[p];
      if (copied) {
        copy_node(nodes_[from], node);
        shift_slots(loop, shift, node);
      } else {
        const bool variable = p < loop.initial.size();
        node.kind = p < copies.passes ? NodeKind::pass : NodeKind::gate;
        node.n_out = variable ? 1 : 0;
        if (variable) node.out = loop.initial[p].second + shift;
      }
      node.n_to = put_list(plan.readers(p, first, next), node.to, more_);
    }
  }
}

void Stage::shift_slots(const Loop& loop, uint32_t shift, FiringNode& node) {
  node.out += shift;
  std::vector<uint32_t> in(inputs_of(node), inputs_of(node) + node.n_in);
  for (uint32_t& slot : in)
    if (slot >= loop.slot_begin && slot < loop.slot_end && !same_in_all(slot)) slot += shift;
  put_list(in, node.in, more_);
}

}  // namespace troupe

// The functions of placement/memory_plan.hpp and troupe/graph.hpp: a simulation of the
// firing loop of actors/engine/step.cpp with sizes instead of tensors. Like that loop,
// it counts the remaining readers of a value, and gives the memory of input 0 to a node that
// declares `in_place`.
#include "placement/memory_plan.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "devices/memory/pool.hpp"
#include "graph/device_name.hpp"
#include "graph/op_properties.hpp"
#include "graph/prune.hpp"
#include "placement/passes/passes.hpp"
#include "placement/call_graph.hpp"
#include "troupe/op.hpp"

namespace troupe {
namespace {

constexpr const char* kDefaultDevice = "/job:local/task:0/device:cpu:0";
constexpr size_t kArenaValuesMax = 20'000, kLargest = 10;
constexpr int64_t kAlignment = 64;
// An upper limit for one value: no device has more memory, and sums of a million of them fit.
constexpr int64_t kValueBytesMax = int64_t{1} << 42;

int64_t bytes_of(const TensorType& type) {
  return std::min(type.shape.size() * size_of(type.dtype), kValueBytesMax);
}

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

class Follower {
 public:
  Follower(const Graph& graph, const Partition& partition)
      : graph_(graph), parts_(partition.nodes), partition_(partition) {
    size_t slots = 0;
    for (const PartNode& part : parts_) {
      first_.push_back(slots);
      slots += outputs_of(part).size();
    }
    uses_.resize(slots);
    piece_.assign(slots, kElsewhere);
    for (const PartNode& part : parts_)
      for (const PartInput& input : part.inputs) ++uses_[slot(input)];
    for (const PartLoop& loop : partition.loops)  // the variables' next values, until the turn
      for (const PartInput& next : loop.next) ++uses_[slot(next)];
  }

  Lifetimes run() {
    for (int32_t p = 0; p < static_cast<int32_t>(parts_.size()); ++p) {
      const PartNode& part = parts_[static_cast<size_t>(p)];
      if (part.kind == PartKind::fetch) continue;  // read when the step is over
      make(part, p);
      const auto has_read = [&](const PartInput& input) {
        if (--uses_[slot(input)] == 0) let_go(piece_[slot(input)], p);
      };
      for (const PartInput& input : part.inputs) has_read(input);
      if (part.kind == PartKind::loop)
        for (const PartLoop& loop : partition_.loops)
          if (loop.driver == p)
            for (const PartInput& next : loop.next) has_read(next);
      for (size_t k = 0; k < outputs_of(part).size(); ++k)
        if (uses_[first_[static_cast<size_t>(p)] + k] == 0)
          let_go(piece_[first_[static_cast<size_t>(p)] + k], p);
    }
    for (Lifetime& piece : out_.pieces)
      if (piece.end < 0) piece.end = static_cast<int32_t>(parts_.size()) - 1;
    return std::move(out_);
  }

 private:
  static constexpr int32_t kElsewhere = -1;  // not in this step's memory

  size_t slot(const PartInput& input) const {
    return first_[static_cast<size_t>(input.node)] + static_cast<size_t>(input.output);
  }

  std::vector<TensorType> outputs_of(const PartNode& part) const {
    switch (part.kind) {
      case PartKind::op:
      case PartKind::loop:
        return graph_.node(part.node).outputs;
      case PartKind::enter:
        return {graph_.node(part.node).outputs[0]};
      case PartKind::feed:
        return {graph_.node(part.node).outputs[static_cast<size_t>(part.output)]};
      case PartKind::receive: {
        const auto edge =
            std::lower_bound(partition_.edges.begin(), partition_.edges.end(), part.edge,
                             [](const Edge& e, int32_t id) { return e.id < id; });
        return {{edge->dtype, edge->shape}};
      }
      default:
        return {};
    }
  }

  // True for memory that belongs to the step: not parameters, constants and feeds.
  bool is_made(const PartNode& part) const {
    if (part.kind == PartKind::receive || part.kind == PartKind::loop) return true;
    if (part.kind != PartKind::op) return false;
    const Node& node = graph_.node(part.node);
    return !node.inputs.empty() || (!part.controls.empty() && !node.op->stateful) ||
           properties_of(node).draws;
  }

  void make(const PartNode& part, int32_t p) {
    const std::vector<TensorType> types = outputs_of(part);
    const Op* op = part.kind == PartKind::op ? graph_.node(part.node).op : nullptr;
    for (size_t k = 0; k < types.size(); ++k) {
      int32_t& piece = piece_[first_[static_cast<size_t>(p)] + k];
      const size_t first_input = part.inputs.empty() ? 0 : slot(part.inputs[0]);
      if (op && op->aliases && k == 0 && !part.inputs.empty()) {
        piece = piece_[first_input];
        if (piece != kElsewhere) ++readers_[static_cast<size_t>(piece)];
        continue;
      }
      if (!is_made(part)) continue;
      if (!types[k].shape.is_known()) {
        ++out_.unknown;
        continue;
      }
      const int64_t bytes = bytes_of(types[k]);
      if (op && op->in_place && k == 0 && takes_over(part, bytes)) {
        piece = piece_[first_input];
        ++readers_[static_cast<size_t>(piece)];
        ++out_.pieces[static_cast<size_t>(piece)].values;
        ++out_.in_place;
        continue;
      }
      piece = static_cast<int32_t>(out_.pieces.size());
      out_.pieces.push_back({p, static_cast<int32_t>(k), p, -1, bytes});
      readers_.push_back(1);
    }
  }

  // True if this node is the last reader of input 0, and no other value aliases its elements.
  bool takes_over(const PartNode& part, int64_t bytes) const {
    if (part.inputs.empty()) return false;
    const size_t at = slot(part.inputs[0]);
    const int32_t piece = piece_[at];
    return piece != kElsewhere && uses_[at] == 1 && readers_[static_cast<size_t>(piece)] == 1 &&
           out_.pieces[static_cast<size_t>(piece)].bytes == bytes;
  }

  void let_go(int32_t piece, int32_t p) {
    if (piece == kElsewhere || --readers_[static_cast<size_t>(piece)] > 0) return;
    out_.pieces[static_cast<size_t>(piece)].end = p;
  }

  const Graph& graph_;
  const std::vector<PartNode>& parts_;
  const Partition& partition_;
  std::vector<size_t> first_;     // by node: its first slot
  std::vector<int32_t> uses_;     // by slot: number of reads still to come
  std::vector<int32_t> piece_;    // by slot
  std::vector<int32_t> readers_;  // by piece: number of slots that refer to it
  Lifetimes out_;
};

std::string name_in(const Graph& graph, const Partition& partition, int32_t node) {
  const PartNode& part = partition.nodes[static_cast<size_t>(node)];
  if (part.node >= 0) return graph.node(part.node).name;
  for (const Edge& edge : partition.edges)
    if (edge.id == part.edge) return graph.node(edge.node).name + " from " + edge.source;
  return to_string(part.kind);
}

// The bytes in use while each node fires.
template <class Bytes>
std::vector<int64_t> at_once(const std::vector<Lifetime>& pieces, size_t nodes,
                             const Bytes& bytes) {
  std::vector<int64_t> now(nodes + 1);
  for (const Lifetime& piece : pieces) {
    now[static_cast<size_t>(piece.begin)] += bytes(piece);
    now[static_cast<size_t>(piece.end) + 1] -= bytes(piece);
  }
  std::partial_sum(now.begin(), now.end(), now.begin());
  now.resize(nodes);
  return now;
}

// The most bytes in use at once, and the first place where they are.
template <class Bytes>
std::pair<int64_t, int32_t> most_at_once(const std::vector<Lifetime>& pieces, size_t nodes,
                                         const Bytes& bytes) {
  const std::vector<int64_t> all = at_once(pieces, nodes, bytes);
  const auto most = std::max_element(all.begin(), all.end());
  if (most == all.end() || *most <= 0) return {0, 0};
  return {*most, static_cast<int32_t>(most - all.begin())};
}

// True if the node's inputs become a parameter, or wait for its acknowledgement.
bool keeps_inputs(const Graph& graph, const PartNode& part) {
  return part.kind == PartKind::op && graph.node(part.node).outputs.empty();
}

std::vector<Lifetime> with_what_is_kept(const Graph& graph, const Partition& partition) {
  std::vector<Lifetime> pieces = lifetimes(graph, partition).pieces;
  for (Lifetime& piece : pieces)
    if (keeps_inputs(graph, partition.nodes[static_cast<size_t>(piece.end)]))
      piece.end = static_cast<int32_t>(partition.nodes.size()) - 1;
  return pieces;
}

// The node's outputs, as far as their sizes are known and they have memory of their own.
int64_t bytes_of_outputs(const Graph& graph, const PartNode& part) {
  if (part.kind != PartKind::op || graph.node(part.node).op->aliases) return 0;
  int64_t all = 0;
  for (const TensorType& type : graph.node(part.node).outputs)
    if (type.shape.is_known()) all += bytes_of(type);
  return all;
}

// The same for an input of a node; 0 if it is not made in a step.
int64_t bytes_of_input(const Graph& graph, const std::vector<PartNode>& parts,
                       const PartInput& input) {
  const PartNode& from = parts[static_cast<size_t>(input.node)];
  if (from.kind != PartKind::op || graph.node(from.node).inputs.empty()) return 0;
  const TensorType& type = graph.node(from.node).outputs[static_cast<size_t>(input.output)];
  return type.shape.is_known() ? bytes_of(type) : 0;
}

// The whole plan except the places in one block, which take the longest.
MemoryPlan plan_without_arena(const Graph& graph, const Partition& partition,
                              const Lifetimes& all) {
  MemoryPlan plan{.device = partition.device,
                  .values = static_cast<int64_t>(all.pieces.size()),
                  .in_place = all.in_place,
                  .unknown = all.unknown};
  for (const Lifetime& piece : all.pieces) plan.naive_bytes += piece.bytes * piece.values;
  const size_t nodes = partition.nodes.size();
  if (nodes == 0) return plan;
  const auto [peak, at] =
      most_at_once(all.pieces, nodes, [](const Lifetime& piece) { return piece.bytes; });
  plan.peak_bytes = peak;
  plan.pool_bytes = most_at_once(all.pieces, nodes, [](const Lifetime& piece) {
                      return size_class::block_bytes(size_class::of(piece.bytes));
                    }).first;
  plan.peak_at = name_in(graph, partition, at);
  std::vector<Lifetime> then;
  for (const Lifetime& piece : all.pieces)
    if (piece.begin <= at && at <= piece.end) then.push_back(piece);
  std::stable_sort(then.begin(), then.end(),
                   [](const Lifetime& a, const Lifetime& b) { return a.bytes > b.bytes; });
  if (then.size() > kLargest) then.resize(kLargest);
  for (const Lifetime& piece : then) {
    const PartNode& part = partition.nodes[static_cast<size_t>(piece.node)];
    const std::string name = name_in(graph, partition, piece.node);
    const auto k = static_cast<size_t>(piece.output);
    plan.largest.push_back({detail::concat(name, ":", piece.output),
                            part.node >= 0 ? graph.node(part.node).outputs[k] : TensorType{},
                            piece.bytes, name_in(graph, partition, piece.begin),
                            name_in(graph, partition, piece.end)});
  }
  return plan;
}

}  // namespace

Lifetimes lifetimes(const Graph& graph, const Partition& partition) {
  return Follower(graph, partition).run();
}

int64_t place_in_arena(const std::vector<Lifetime>& pieces, std::vector<int64_t>* places) {
  std::vector<size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return pieces[a].bytes > pieces[b].bytes; });
  std::vector<int64_t> at(pieces.size());
  std::vector<size_t> placed;  // ascending by place
  int64_t all = 0;
  for (size_t i : order) {
    const Lifetime& mine = pieces[i];
    int64_t from = 0;
    for (size_t j : placed) {
      const Lifetime& other = pieces[j];
      if (other.end < mine.begin || mine.end < other.begin) continue;
      if (at[j] - from >= aligned(mine.bytes)) break;
      from = std::max(from, at[j] + aligned(other.bytes));
    }
    at[i] = from;
    all = std::max(all, from + aligned(mine.bytes));
    placed.insert(std::upper_bound(placed.begin(), placed.end(), i,
                                   [&](size_t a, size_t b) { return at[a] < at[b]; }),
                  i);
  }
  if (places) *places = std::move(at);
  return all;
}

int64_t bytes_made(const Graph& graph, const Partition& partition) {
  const auto bytes = [](const TensorType& type) {
    return type.shape.is_known() ? bytes_of(type) : 0;
  };
  int64_t all = 0;
  for (const PartNode& part : partition.nodes)
    if (part.kind == PartKind::op || part.kind == PartKind::loop)
      for (const TensorType& type : graph.node(part.node).outputs) all += bytes(type);
  for (const Edge& edge : partition.edges) all += bytes({edge.dtype, edge.shape});
  return all;
}

int64_t peak_bytes(const Graph& graph, const Partition& partition) {
  return most_at_once(with_what_is_kept(graph, partition), partition.nodes.size(),
                      [](const Lifetime& piece) { return piece.bytes; })
      .first;
}

std::vector<bool> leaves_more(const Graph& graph, const Partition& partition) {
  // An output more than this many times its input is a new value, not the input in another form.
  constexpr int64_t kLarger = 4;
  const std::vector<PartNode>& parts = partition.nodes;
  std::vector<int64_t> left(parts.size());  // bytes kept of a node's outputs; -1: other readers
  std::vector<bool> out(parts.size());
  for (size_t p = parts.size(); p-- > 0;) {
    int64_t read = 0;
    for (const PartInput& input : parts[p].inputs) read += bytes_of_input(graph, parts, input);
    out[p] = left[p] > 0 && left[p] >= read;
    const bool ends = keeps_inputs(graph, parts[p]);
    for (const PartInput& input : parts[p].inputs) {
      const int64_t bytes = bytes_of_input(graph, parts, input);
      int64_t& of_maker = left[static_cast<size_t>(input.node)];
      if (of_maker < 0) continue;
      if (ends)
        of_maker += bytes;
      else
        of_maker = out[p] && left[p] / kLarger <= bytes ? of_maker + left[p] : -1;
    }
  }
  return out;
}

std::vector<int32_t> earliest_firings(const Graph& graph, const Partition& partition) {
  constexpr int64_t kWorthAWait = int64_t{1} << 20, kShare = 32;
  if (bytes_made(graph, partition) < kWorthAWait) return {};
  const size_t nodes = partition.nodes.size();
  const std::vector<int64_t> live = at_once(with_what_is_kept(graph, partition), nodes,
                                            [](const Lifetime& p) { return p.bytes; });
  const int64_t peak = *std::max_element(live.begin(), live.end());
  std::vector<int32_t> out(nodes);
  // Nodes before this one, each with more in use than every node between it and this one: the last
  // entry above some figure is the last of all nodes above it.
  std::vector<size_t> falling;
  for (size_t p = 0; p < nodes; ++p) {
    const int64_t bytes = bytes_of_outputs(graph, partition.nodes[p]);
    if (bytes > peak / kShare && partition.nodes[p].loop < 0) {
      const auto after = std::partition_point(falling.begin(), falling.end(), [&](size_t before) {
        return live[before] > peak - bytes;
      });
      if (after != falling.begin()) out[p] = static_cast<int32_t>(*(after - 1)) + 1;
    }
    while (!falling.empty() && live[falling.back()] <= live[p]) falling.pop_back();
    falling.push_back(p);
  }
  return out;
}

std::string over_budget(const Graph& graph, const Partition& partition, int64_t budget_bytes) {
  // Most calls fit by this simple bound.
  if (bytes_made(graph, partition) <= budget_bytes) return {};
  const MemoryPlan plan = plan_without_arena(graph, partition, lifetimes(graph, partition));
  if (plan.peak_bytes <= budget_bytes) return {};
  std::string text = detail::concat("a step needs more memory than there is: device=", plan.device,
                                    " bytes=", plan.peak_bytes, " budget=", budget_bytes,
                                    " at=", plan.peak_at, " largest=");
  for (const MemoryPlan::Value& value : plan.largest)
    text +=
        detail::concat(&value == &plan.largest[0] ? "" : ",", value.name, "(", value.bytes, ")");
  return text;
}

MemoryPlan plan_memory(const Graph& graph, const Partition& partition) {
  const Lifetimes all = lifetimes(graph, partition);
  MemoryPlan plan = plan_without_arena(graph, partition, all);
  plan.arena_bytes = all.pieces.size() > kArenaValuesMax ? -1 : place_in_arena(all.pieces);
  return plan;
}

std::vector<MemoryPlan> explain_memory(const Graph& graph, const std::vector<Output>& fetches,
                                       const std::vector<Output>& feeds) {
  const std::vector<int32_t> needed = prune(graph, fetches, feeds);
  const DeviceName fallback = parse_device_name(kDefaultDevice);
  std::set<std::string> devices = {kDefaultDevice};
  for (int32_t id : needed)
    devices.insert(to_string(merge(parse_device_name(graph.node(id).device), fallback)));
  const Placement placement =
      place(graph, needed,
            {.devices = {devices.begin(), devices.end()}, .default_device = kDefaultDevice});
  const CallGraph call = make_call_graph(graph, fetches, feeds, &placement, true);
  const Placement placed =
      placement_in(call, prune(*call.graph, call.fetches, call.feeds), placement);
  std::vector<MemoryPlan> plans;
  for (const Partition& part :
       partition(*call.graph, call.fetches, call.feeds, placed.devices, kDefaultDevice))
    plans.push_back(plan_memory(*call.graph, part));
  return plans;
}

std::string to_text(const MemoryPlan& plan) {
  std::string out = detail::concat(
      plan.device, ": ", plan.peak_bytes,
      plan.unknown > 0 ? " bytes at least, at " : " bytes at most, at ", plan.peak_at, "; ",
      plan.naive_bytes, " without using any twice; ", plan.pool_bytes, " in blocks of the pool; ");
  if (plan.arena_bytes >= 0)
    out += detail::concat(plan.arena_bytes, " in one block with fixed places; ");
  out += detail::concat(plan.values, " pieces of memory, ", plan.in_place, " values in place");
  if (plan.unknown > 0) out += detail::concat("; ", plan.unknown, " of unknown size not counted");
  out += "\n";
  for (const MemoryPlan::Value& value : plan.largest)
    out += detail::concat("  ", value.bytes, " bytes: ", value.name, " ", value.type, ", until ",
                          value.last, "\n");
  return out;
}

}  // namespace troupe

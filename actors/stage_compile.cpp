// Compiles a partition into the arrays of actors/stage.hpp.
//
// Nodes keep the partition's numbers (placement/partition.hpp: firing order), without those that
// need no firing: fetches are value slots that are kept, and on a host device a node without inputs
// or state is run once, here, its value a slot that nobody counts.
#include <algorithm>
#include <set>

#include "actors/op_actor.hpp"
#include "actors/stage.hpp"

namespace troupe {
namespace {

// Never counted down to zero within a step; armed anew for each.
constexpr int32_t kUncounted = 1 << 30;
constexpr uint32_t kNotFired = ~0u;

const Edge& edge_of(const Partition& partition, int32_t id) {
  return *std::find_if(partition.edges.begin(), partition.edges.end(),
                       [&](const Edge& e) { return e.id == id; });
}

std::string part_name(const Graph& graph, const Partition& partition, const PartNode& part) {
  switch (part.kind) {
    case PartKind::send: {
      const Edge& edge = edge_of(partition, part.edge);
      return detail::concat("Send ", graph.node(edge.node).name, " to ", edge.destination);
    }
    case PartKind::receive: {
      const Edge& edge = edge_of(partition, part.edge);
      return detail::concat("Receive ", graph.node(edge.node).name, " from ", edge.source);
    }
    case PartKind::feed:
      return detail::concat("Feed ", graph.node(part.node).name);
    default:
      return graph.node(part.node).name;
  }
}

}  // namespace

std::shared_ptr<Stage> Stage::make(uint64_t session, uint32_t executable,
                                   std::shared_ptr<const Graph> graph, Partition partition,
                                   StageHost host) {
  std::shared_ptr<Stage> stage(
      new Stage(session, executable, std::move(graph), std::move(partition), std::move(host)));
  std::lock_guard lock(stage->mutex_);
  for (uint32_t i = 0; i < stage->nodes_.size(); ++i)
    stage->actors_.push_back(make_op_actor(*stage->host_.system, 0, stage, i, stage->names_[i]));
  return stage;
}

Stage::Stage(uint64_t session, uint32_t executable, std::shared_ptr<const Graph> graph,
             Partition partition, StageHost host)
    : session_(session),
      executable_(executable),
      graph_(std::move(graph)),
      partition_(std::move(partition)),
      host_(std::move(host)) {
  const std::vector<PartNode>& parts = partition_.nodes;
  std::vector<uint32_t> fires(parts.size(), kNotFired);  // part -> firing index
  std::vector<uint32_t> first_slot(parts.size(), 0);
  std::vector<std::vector<Tensor>> preset(parts.size());
  uint32_t fired = 0, slots = 0;
  RunContext no_step;
  for (size_t p = 0; p < parts.size(); ++p) {
    const PartNode& part = parts[p];
    first_slot[p] = slots;
    if (part.kind == PartKind::fetch) continue;
    if (part.kind == PartKind::op) {
      const Node& node = graph_->node(part.node);
      const Kernel* kernel = host_.device->kernel_for(node);
      if (!kernel)
        throw Error(Errc::invalid_argument, "node ", node.name, " (", node.op->name, ", made at ",
                    node.file, ":", node.line, ") has no kernel for ", dispatch_dtype(node), " on ",
                    partition_.device, "; place it on a cpu device");
      const bool fixed = part.inputs.empty() && part.controls.empty() && !node.op->stateful &&
                         kernel->run && host_.device->on_host();
      if (fixed)
        preset[p] = run_kernel(NodeView::make(node, *kernel), {}, host_.device->memory(), no_step);
      slots += static_cast<uint32_t>(node.outputs.size());
      for (size_t k = 0; k < node.outputs.size(); ++k)
        slots_[{part.node, static_cast<int32_t>(k)}] = first_slot[p] + static_cast<uint32_t>(k);
      if (fixed) continue;
    } else if (part.kind != PartKind::send) {
      ++slots;
    }
    fires[p] = fired++;
  }

  nodes_ = std::vector<FiringNode>(fired);
  cost_ns_ = std::vector<std::atomic<int64_t>>(fired);
  views_.resize(fired);
  names_.resize(fired);
  send_of_.assign(fired, -1);
  edge_memory_.assign(fired, nullptr);
  constants_.resize(slots);
  missing_.assign(fired, 0);
  uses_.assign(slots, 0);
  std::vector<std::set<uint32_t>> readers(fired);

  for (size_t p = 0; p < parts.size(); ++p) {
    for (size_t k = 0; k < preset[p].size(); ++k) {
      constants_[first_slot[p] + k] = std::move(preset[p][k]);
      uses_[first_slot[p] + k] = kUncounted;
    }
  }
  for (size_t p = 0; p < parts.size(); ++p) {
    const PartNode& part = parts[p];
    const auto slot_of_input = [&](const PartInput& in) {
      return first_slot[static_cast<size_t>(in.node)] + static_cast<uint32_t>(in.output);
    };
    if (part.kind == PartKind::fetch) {
      if (part.inputs.empty()) continue;
      const uint32_t slot = slot_of_input(part.inputs[0]);
      slots_[{part.node, part.output}] = slot;
      if (uses_[slot] >= kUncounted) continue;
      ++uses_[slot];
      kept_slots_.push_back(slot);
      continue;
    }
    const uint32_t i = fires[p];
    if (i == kNotFired) continue;
    FiringNode& node = nodes_[i];
    names_[i] = part_name(*graph_, partition_, part);
    std::vector<uint32_t> in;
    for (const PartInput& input : part.inputs) {
      const uint32_t slot = slot_of_input(input);
      in.push_back(slot);
      ++uses_[slot];
      if (const uint32_t from = fires[static_cast<size_t>(input.node)]; from != kNotFired)
        readers[from].insert(i);
    }
    for (int32_t before : part.controls)
      if (const uint32_t from = fires[static_cast<size_t>(before)]; from != kNotFired)
        readers[from].insert(i);
    TROUPE_CHECK(in.size() < 65536, "node ", names_[i], " has ", in.size(), " inputs");
    node.n_in = static_cast<uint16_t>(in.size());
    if (in.size() <= 4) {
      std::copy(in.begin(), in.end(), node.in);
    } else {
      node.in[0] = static_cast<uint32_t>(more_.size());
      more_.insert(more_.end(), in.begin(), in.end());
    }
    node.out = first_slot[p];
    switch (part.kind) {
      case PartKind::op: {
        const Node& graph_node = graph_->node(part.node);
        views_[i] = NodeView::make(graph_node, *host_.device->kernel_for(graph_node));
        views_[i].lanes = host_.op_lanes;
        node.view = &views_[i];
        node.run.store(views_[i].kernel->run, std::memory_order_relaxed);
        TROUPE_CHECK(graph_node.outputs.size() < 65536, "node ", names_[i], " has ",
                     graph_node.outputs.size(), " outputs");
        node.n_out = static_cast<uint16_t>(graph_node.outputs.size());
        node.in_place = graph_node.op->in_place && node.n_in > 0;
        node.kind = !views_[i].kernel->run    ? NodeKind::async
                    : host_.device->on_host() ? NodeKind::plain
                                              : NodeKind::queued;
        has_async_ |= node.kind == NodeKind::async;
        break;
      }
      case PartKind::send: {
        auto port = std::make_unique<SendPort>();
        port->edge = part.edge;
        port->control = part.inputs.empty();
        port->slot = part.inputs.empty() ? 0 : in[0];
        send_of_[i] = static_cast<int32_t>(sends_.size());
        sends_.push_back(std::move(port));
        node.kind = NodeKind::send;
        if (!part.inputs.empty())
          make_for(part.edge, fires[static_cast<size_t>(part.inputs[0].node)]);
        break;
      }
      case PartKind::receive: {
        receive_nodes_.emplace_back(part.edge, i);
        ++receives_;
        node.n_out = edge_of(partition_, part.edge).control ? 0 : 1;
        node.kind = NodeKind::source;
        break;
      }
      case PartKind::feed:
        node.n_out = 1;
        node.kind = NodeKind::source;
        source_slots_[{part.node, part.output}] = node.out;
        slots_[{part.node, part.output}] = node.out;
        break;
      case PartKind::fetch:
        break;
    }
  }
  std::sort(receive_nodes_.begin(), receive_nodes_.end());
  for (const auto& [edge, i] : receive_nodes_) receive_edges_.push_back(&edge_of(partition_, edge));

  std::set<uint32_t> received;
  for (const auto& [edge, i] : receive_nodes_) received.insert(i);
  for (uint32_t i = 0; i < fired; ++i) {
    // Made ready from the highest number to the lowest, so that the lowest fires first.
    std::vector<uint32_t> to(readers[i].rbegin(), readers[i].rend());
    nodes_[i].n_to = static_cast<uint32_t>(to.size());
    if (to.size() <= 4) {
      std::copy(to.begin(), to.end(), nodes_[i].to);
    } else {
      nodes_[i].to[0] = static_cast<uint32_t>(more_.size());
      more_.insert(more_.end(), to.begin(), to.end());
    }
    for (uint32_t reader : to) ++missing_[reader];
  }
  for (uint32_t i = fired; i-- > 0;)
    if (missing_[i] == 0 && !received.count(i)) first_ready_.push_back(i);
}

// What the kernel of node `from` makes leaves over that edge. Of several edges the first counts.
void Stage::make_for(int32_t edge, uint32_t from) {
  if (from == kNotFired || edge_memory_[from] || nodes_[from].kind != NodeKind::plain ||
      !host_.edge_memory)
    return;
  edge_memory_[from] = host_.edge_memory(edge_of(partition_, edge));
  nodes_[from].leaves = edge_memory_[from] != nullptr;
}

uint32_t Stage::source_slot(int32_t node, int32_t output) const {
  auto it = source_slots_.find({node, output});
  return it == source_slots_.end() ? kNoSlot : it->second;
}

std::string Stage::name_of(uint32_t firing_index) const { return names_.at(firing_index); }

}  // namespace troupe

// Compiles a partition into the arrays of actors/stage.hpp.
//
// Nodes keep the partition's numbers (placement/partition.hpp: firing order), without those that
// need no firing: fetches are value slots that are kept, and on a host device a node without inputs
// or state is run once, here, its value a slot that nobody counts.
#include <algorithm>
#include <set>

#include "actors/op_actor.hpp"
#include "devices/held.hpp"
#include "actors/stage.hpp"

namespace troupe {
namespace {

constexpr uint32_t kNotFired = ~0u;

// They stand by their ids.
const Edge& edge_of(const Partition& partition, int32_t id) {
  return *std::lower_bound(partition.edges.begin(), partition.edges.end(), id,
                           [](const Edge& e, int32_t wanted) { return e.id < wanted; });
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
    case PartKind::ack:
      return detail::concat("Iterations on ", edge_of(partition, part.edge).source);
    case PartKind::turn:
      return detail::concat("Turn of ", graph.node(part.node).name);
    case PartKind::feed:
      return detail::concat("Feed ", graph.node(part.node).name);
    default:
      return graph.node(part.node).name;
  }
}

// Which nodes need not fire although they stand in a branch: who reads them waits for the branch
// itself. A captured value is then the slot that it was captured from; a constant is computed once.
class Transparent {
 public:
  Transparent(const Graph& graph, const Partition& partition, const Device& device)
      : graph_(graph), parts_(partition.nodes) {
    std::vector<bool> merged(parts_.size());  // a Merge looks which of its inputs are there
    for (const PartNode& part : parts_)
      if (part.kind == PartKind::op && op(part).control == ControlKind::merge)
        for (const PartInput& input : part.inputs) merged[static_cast<size_t>(input.node)] = true;
    through_.resize(parts_.size());
    is_.resize(parts_.size());
    for (size_t p = 0; p < parts_.size(); ++p)
      if (!merged[p] && may_be(parts_[p], device)) add(p);
  }

  bool is(size_t part) const { return is_[part]; }
  // The node whose value `part` has.
  size_t source(size_t part) const {
    while (is_[part] && !parts_[part].inputs.empty())
      part = static_cast<size_t>(parts_[part].inputs[0].node);
    return part;
  }
  // What `part` runs after because of transparent nodes that it reads or waits for, without what
  // all else that it reads implies.
  std::vector<int32_t> inherited(size_t part) const {
    std::vector<int32_t> out;
    if (!any_) return out;
    for (int32_t before : all_before(part))
      for (int32_t opener : through_[static_cast<size_t>(before)])
        if (!implied(part, opener)) out.push_back(opener);
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

 private:
  const Op& op(const PartNode& part) const { return *graph_.node(part.node).op; }

  bool opens(int32_t part) const {
    const PartNode& node = parts_[static_cast<size_t>(part)];
    return node.kind == PartKind::op && op(node).control == ControlKind::branch;
  }

  bool may_be(const PartNode& part, const Device& device) const {
    if (part.kind != PartKind::op || part.controls.size() != 1 || !device.on_host()) return false;
    if (op(part).control == ControlKind::capture) return opens(part.controls[0]);
    const Kernel* kernel = device.kernel_for(graph_.node(part.node));
    return part.inputs.empty() && !op(part).stateful && op(part).control == ControlKind::none &&
           !op(part).outputs.empty() && kernel && kernel->run && opens(part.controls[0]);
  }

  void add(size_t p) {
    is_[p] = any_ = true;
    through_[p] = inherited(p);
    through_[p].push_back(parts_[p].controls[0]);
  }

  std::vector<int32_t> all_before(size_t p) const {
    std::vector<int32_t> out = parts_[p].controls;
    for (const PartInput& input : parts_[p].inputs) out.push_back(input.node);
    return out;
  }

  // Whether `part` is dead where `opener` is, by something that it reads and that fires. One step
  // back is enough for most.
  bool implied(size_t part, int32_t opener) const {
    for (int32_t before : all_before(part)) {
      const auto b = static_cast<size_t>(before);
      if (before == opener) return true;
      if (is_[b] || parts_[b].kind != PartKind::op || op(parts_[b]).control == ControlKind::merge)
        continue;
      for (int32_t earlier : all_before(b)) {
        const std::vector<int32_t>& more = through_[static_cast<size_t>(earlier)];
        if (earlier == opener || std::find(more.begin(), more.end(), opener) != more.end())
          return true;
      }
    }
    return false;
  }

  const Graph& graph_;
  const std::vector<PartNode>& parts_;
  std::vector<std::vector<int32_t>> through_;  // of a transparent node: what stands for it
  std::vector<bool> is_;
  bool any_ = false;
};

}  // namespace

std::shared_ptr<Stage> Stage::make(uint64_t session, uint32_t executable,
                                   std::shared_ptr<const Graph> graph, Partition partition,
                                   StageHost host) {
  std::shared_ptr<Stage> stage(
      new Stage(session, executable, std::move(graph), std::move(partition), std::move(host)));
  stage->make_bodies();
  std::lock_guard lock(stage->mutex_);
  for (uint32_t i = 0; i < stage->own_nodes_; ++i)
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
  const RunContext no_step{.run = kBetweenSteps};
  const uint64_t label = label_graph(graph_);
  const Transparent transparent(*graph_, partition_, *host_.device);
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
      if (transparent.is(p) && !part.inputs.empty()) {
        const PartInput& from = part.inputs[0];
        first_slot[p] =
            first_slot[static_cast<size_t>(from.node)] + static_cast<uint32_t>(from.output);
        continue;
      }
      const bool fixed = part.inputs.empty() && (part.controls.empty() || transparent.is(p)) &&
                         !node.op->stateful && kernel->run && host_.device->on_host();
      if (fixed) {
        NodeView view = NodeView::make(node, *kernel);
        view.label = label + static_cast<uint64_t>(part.node) * kLabelStep;
        preset[p] = run_kernel(view, {}, host_.device->memory(), no_step);
      }
      slots += static_cast<uint32_t>(node.outputs.size());
      for (size_t k = 0; k < node.outputs.size(); ++k)
        slots_[{part.node, static_cast<int32_t>(k)}] = first_slot[p] + static_cast<uint32_t>(k);
      if (fixed) continue;
    } else if (part.kind == PartKind::loop) {  // of the opener elsewhere: no outputs
      const size_t outputs = graph_->node(part.node).outputs.size();
      slots += static_cast<uint32_t>(outputs);
      for (size_t k = 0; k < outputs; ++k)
        slots_[{part.node, static_cast<int32_t>(k)}] = first_slot[p] + static_cast<uint32_t>(k);
    } else if (part.kind != PartKind::send) {
      ++slots;
    }
    if (part.kind == PartKind::enter) continue;
    fires[p] = fired++;
  }

  nodes_ = std::vector<FiringNode>(fired);
  views_.resize(fired);
  names_.resize(fired);
  send_of_.assign(fired, -1);
  role_of_.assign(fired, kNoLoop);
  edge_memory_.assign(fired, nullptr);
  constants_.resize(slots);
  missing_.assign(fired, 0);
  uses_.assign(slots, 0);
  std::vector<std::set<uint32_t>> readers(fired);
  std::vector<std::pair<uint32_t, size_t>> restores;  // firing index -> part of its save

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
      const size_t source = transparent.source(static_cast<size_t>(input.node));
      if (const uint32_t from = fires[source]; from != kNotFired) readers[from].insert(i);
    }
    for (int32_t before : part.controls)
      if (const uint32_t from = fires[static_cast<size_t>(before)]; from != kNotFired)
        readers[from].insert(i);
    for (int32_t opener : transparent.inherited(p))
      readers[fires[static_cast<size_t>(opener)]].insert(i);
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
      case PartKind::loop:
        node.n_out = static_cast<uint16_t>(graph_->node(part.node).outputs.size());
        node.kind = NodeKind::loop;
        break;
      case PartKind::turn:
        node.kind = NodeKind::turn;
        break;
      case PartKind::ack:
        receive_nodes_.emplace_back(part.edge, i);
        node.kind = NodeKind::source;
        break;
      case PartKind::enter:
        break;
      case PartKind::op: {
        const Node& graph_node = graph_->node(part.node);
        views_[i] = NodeView::make(graph_node, *host_.device->kernel_for(graph_node));
        views_[i].lanes = host_.op_lanes;
        views_[i].label = label + static_cast<uint64_t>(part.node) * kLabelStep;
        node.view = &views_[i];
        node.run.store(views_[i].kernel->run, std::memory_order_relaxed);
        TROUPE_CHECK(graph_node.outputs.size() < 65536, "node ", names_[i], " has ",
                     graph_node.outputs.size(), " outputs");
        node.n_out = static_cast<uint16_t>(graph_node.outputs.size());
        node.in_place = graph_node.op->in_place && node.n_in > 0;
        node.kind = kind_of(graph_node, *views_[i].kernel);
        if (node.kind == NodeKind::save) role_of_[i] = static_cast<uint32_t>(saves_++);
        if (node.kind == NodeKind::restore)
          restores.emplace_back(i, static_cast<size_t>(part.save));
        has_async_ |= node.kind == NodeKind::async;
        break;
      }
      case PartKind::send: {
        auto port = std::make_unique<SendPort>();
        port->edge = part.edge;
        port->loop = part.loop < 0 ? kNoLoop : static_cast<uint32_t>(part.loop);
        port->control = part.inputs.empty();
        port->slot = part.inputs.empty() ? 0 : in[0];
        send_of_[i] = static_cast<int32_t>(sends_.size());
        sends_.push_back(std::move(port));
        node.kind = NodeKind::send;
        if (!part.inputs.empty())
          make_for(part.edge, fires[transparent.source(static_cast<size_t>(part.inputs[0].node))]);
        break;
      }
      case PartKind::receive: {
        receive_nodes_.emplace_back(part.edge, i);
        if (part.loop < 0) ++receives_;
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
  for (const auto& [i, save] : restores) role_of_[i] = role_of_[fires[save]];
  compile_loops(fires, first_slot);
  find_first_ready(fires);
  compile_copies(fires);
  adopt_costs();
}

// What is ready as soon as the step, or the iteration, is armed. What has come from elsewhere is
// ready when it comes.
void Stage::find_first_ready(const std::vector<uint32_t>& fires) {
  for (size_t p = partition_.nodes.size(); p-- > 0;) {
    const PartNode& part = partition_.nodes[p];
    if (fires[p] == kNotFired || missing_[fires[p]] != 0) continue;
    if (part.kind == PartKind::receive || part.kind == PartKind::ack) continue;
    (part.loop < 0 ? first_ready_ : loops_[static_cast<size_t>(part.loop)].first_ready)
        .push_back(fires[p]);
  }
}

void Stage::compile_loops(const std::vector<uint32_t>& fires,
                          const std::vector<uint32_t>& first_slot) {
  const std::vector<PartNode>& parts = partition_.nodes;
  const auto slot_of_input = [&](const PartInput& in) {
    return first_slot[static_cast<size_t>(in.node)] + static_cast<uint32_t>(in.output);
  };
  for (const PartLoop& part : partition_.loops) {
    const auto driver = static_cast<size_t>(part.driver);
    Loop loop;
    loop.driver = fires[driver];
    loop.turn = fires[static_cast<size_t>(part.turn)];
    loop.again = fires[static_cast<size_t>(part.again)];
    loop.begin = loop.turn;
    for (auto p = static_cast<size_t>(part.begin); p < driver; ++p)
      if (fires[p] != kNotFired) loop.begin = std::min(loop.begin, fires[p]);
    loop.end = loop.driver;
    loop.slot_begin = first_slot[static_cast<size_t>(part.begin)];
    loop.slot_end = first_slot[driver];
    loop.home = part.home;
    loop.in_flight = part.in_flight;
    loop.opener = part.opener;
    const auto number = static_cast<uint32_t>(loops_.size());
    role_of_[loop.driver] = role_of_[loop.turn] = number;
    if (part.home) role_of_[loop.again] = number;
    const auto entering = [&](const PartLoop::Entering& value) {
      const uint32_t to = first_slot[static_cast<size_t>(value.node)];
      return std::pair{slot_of_input(parts[driver].inputs[static_cast<size_t>(value.input)]), to};
    };
    for (const PartLoop::Entering& value : part.captured) {
      loop.captured.push_back(entering(value));
      uses_[loop.captured.back().second] = kUncounted;  // until the loop ends
    }
    for (const PartLoop::Entering& value : part.variables) {
      loop.initial.push_back(entering(value));
      const Node& node = graph_->node(parts[static_cast<size_t>(value.node)].node);
      loop.types.push_back(node.outputs[0]);
      loop.variable_names.push_back(node.name);
    }
    const auto fits = [](const Shape& wanted, const Shape& known) {
      for (int d = 0; d < wanted.ndim(); ++d)
        if (wanted[d] >= 0 && wanted[d] != known[d]) return false;
      return true;
    };
    for (uint32_t v = 0; v < part.next.size(); ++v) {
      const Node& repeat = graph_->node(parts[driver].node);
      loop.next.push_back(slot_of_input(part.next[v]));
      if (!fits(loop.types[v].shape, repeat.inputs[part.next.size() + v].shape()))
        loop.unsure.push_back(v);
    }
    loop.direct = std::none_of(loop.next.begin(), loop.next.end(), [&](uint32_t slot) {
      return std::any_of(loop.initial.begin(), loop.initial.end(),
                         [&](const auto& variable) { return variable.second == slot; });
    });
    for (int32_t ack : part.acks) loop.acks.push_back(fires[static_cast<size_t>(ack)]);
    loops_.push_back(std::move(loop));
  }
  receive_loops_.assign(receive_nodes_.size(), kNoLoop);
  for (size_t e = 0; e < receive_nodes_.size(); ++e) {
    const int32_t opener = receive_edges_[e]->loop;
    if (opener < 0) continue;
    const auto in = std::find_if(loops_.begin(), loops_.end(),
                                 [&](const Loop& loop) { return loop.opener == opener; });
    receive_loops_[e] = static_cast<uint32_t>(in - loops_.begin());
    const bool ack =
        std::find(in->acks.begin(), in->acks.end(), receive_nodes_[e].second) != in->acks.end();
    if (!ack) in->receives.push_back(e);
  }
}

NodeKind Stage::kind_of(const Node& node, const Kernel& kernel) const {
  const bool on_host = host_.device->on_host();
  switch (node.op->control) {
    case ControlKind::branch:
      TROUPE_CHECK(on_host, "the ", describe(node), " is on ", device(),
                   ", where the host cannot read what it says");
      return NodeKind::branch;
    case ControlKind::merge:
      return NodeKind::merge;
    case ControlKind::save:
      return NodeKind::save;
    case ControlKind::restore:
      return NodeKind::restore;
    case ControlKind::call:
      return NodeKind::call;
    default:
      return !kernel.run ? NodeKind::async : on_host ? NodeKind::plain : NodeKind::queued;
  }
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

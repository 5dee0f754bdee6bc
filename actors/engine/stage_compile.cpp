// Compiles a partition into the arrays of actors/engine/stage.hpp.
//
// Nodes keep the partition's numbers (placement/partition.hpp: firing order), without those that
// need no firing: fetches are value slots that are kept, and on a host device a node without inputs
// or state is run once, here, its value a slot that nobody counts.
#include <algorithm>
#include <set>

#include "actors/engine/op_actor.hpp"
#include "actors/engine/stage.hpp"
#include "devices/held.hpp"
#include "placement/memory_plan.hpp"

namespace troupe {
namespace {

constexpr uint32_t kNotFired = ~0u;

// One of the library's own kernels, which make what their ops say. What others have made is looked
// at after each firing.
bool is_trusted(const Op& op, const Kernel& kernel) {
  const Op* known = op.built_in;
  if (known == &op) return true;
  return known && std::any_of(known->kernels.begin(), known->kernels.end(),
                              [&](const Kernel& k) { return k.run == kernel.run; });
}

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
  for (uint32_t i = 0; i < stage->nodes_.size(); ++i)
    stage->actors_.push_back(make_op_actor(*stage->host_.system, 0, stage, i, stage->names_[i]));
  return stage;
}

// What the parts of a partition have become, while it is compiled.
struct PartNumbers {
  PartNumbers(const Graph& graph, const Partition& partition, const Device& device)
      : fires(partition.nodes.size(), kNotFired),
        first_slot(partition.nodes.size()),
        preset(partition.nodes.size()),
        transparent(graph, partition, device) {}

  uint32_t slot_of(const PartInput& in) const {
    return first_slot[static_cast<size_t>(in.node)] + static_cast<uint32_t>(in.output);
  }
  // The node that fires for what an input reads, or kNotFired.
  uint32_t maker_of(const PartInput& in) const {
    return fires[transparent.source(static_cast<size_t>(in.node))];
  }

  std::vector<uint32_t> fires;  // part -> firing index
  std::vector<uint32_t> first_slot;
  std::vector<std::vector<Tensor>> preset;  // computed once
  const Transparent transparent;
  uint64_t label = 0;  // of the graph
  uint32_t fired = 0, slots = 0;
  std::vector<std::set<uint32_t>> readers;
  std::vector<std::pair<uint32_t, size_t>> restores;  // firing index -> part of its save
};

Stage::Stage(uint64_t session, uint32_t executable, std::shared_ptr<const Graph> graph,
             Partition partition, StageHost host)
    : session_(session),
      executable_(executable),
      graph_(std::move(graph)),
      partition_(std::move(partition)),
      host_(std::move(host)) {
  PartNumbers numbers(*graph_, partition_, *host_.device);
  numbers.label = label_graph(graph_);
  number_parts(numbers);
  make_arrays(numbers);
  for (size_t p = 0; p < partition_.nodes.size(); ++p)
    if (partition_.nodes[p].kind == PartKind::fetch)
      keep_fetched(partition_.nodes[p], numbers);
    else if (numbers.fires[p] != kNotFired)
      compile_node(p, numbers);
  std::sort(receive_nodes_.begin(), receive_nodes_.end());
  for (const auto& [edge, i] : receive_nodes_) receive_edges_.push_back(&edge_of(partition_, edge));
  join_nodes(numbers);
  for (const auto& [i, save] : numbers.restores) role_of_[i] = role_of_[numbers.fires[save]];
  compile_loops(numbers.fires, numbers.first_slot);
  find_first_ready(numbers.fires);
  find_earliest(numbers.fires);
  adopt_costs();
}

// Firing indices and value slots.
void Stage::number_parts(PartNumbers& numbers) {
  for (size_t p = 0; p < partition_.nodes.size(); ++p) {
    const PartNode& part = partition_.nodes[p];
    numbers.first_slot[p] = numbers.slots;
    if (part.kind == PartKind::fetch) continue;
    size_t outputs = part.kind == PartKind::send ? 0 : 1;
    bool fires = part.kind != PartKind::enter;
    if (part.kind == PartKind::op) {
      if (numbers.transparent.is(p) && !part.inputs.empty()) {
        numbers.first_slot[p] = numbers.slot_of(part.inputs[0]);
        kernel_of(graph_->node(part.node));
        continue;
      }
      fires = !preset(p, numbers);
    }
    // A loop is that of an opener elsewhere if it has no outputs.
    if (part.kind == PartKind::op || part.kind == PartKind::loop) {
      outputs = graph_->node(part.node).outputs.size();
      for (size_t k = 0; k < outputs; ++k)
        slots_[{part.node, static_cast<int32_t>(k)}] = numbers.slots + static_cast<uint32_t>(k);
    }
    numbers.slots += static_cast<uint32_t>(outputs);
    if (fires) numbers.fires[p] = numbers.fired++;
  }
}

const Kernel& Stage::kernel_of(const Node& node) const {
  if (const Kernel* kernel = host_.device->kernel_for(node)) return *kernel;
  throw Error(Errc::invalid_argument, "node ", node.name, " (", node.op->name, ", made at ",
              node.file, ":", node.line, ") has no kernel for ", dispatch_dtype(node), " on ",
              partition_.device, "; place it on a cpu device");
}

// Computes the node's values if they are the same in all steps. False: it fires.
bool Stage::preset(size_t p, PartNumbers& numbers) const {
  const PartNode& part = partition_.nodes[p];
  const Node& node = graph_->node(part.node);
  const Kernel& kernel = kernel_of(node);
  const bool fixed = part.inputs.empty() && (part.controls.empty() || numbers.transparent.is(p)) &&
                     !node.op->stateful && kernel.run && host_.device->on_host();
  if (!fixed) return false;
  NodeView view = NodeView::make(node, kernel);
  view.label = numbers.label + static_cast<uint64_t>(part.node) * kLabelStep;
  const RunContext no_step{.run = kBetweenSteps};
  numbers.preset[p] = run_kernel(view, {}, host_.device->memory(), no_step);
  return true;
}

void Stage::make_arrays(PartNumbers& numbers) {
  nodes_ = std::vector<FiringNode>(numbers.fired);
  views_.resize(numbers.fired);
  names_.resize(numbers.fired);
  send_of_.assign(numbers.fired, -1);
  role_of_.assign(numbers.fired, kNoLoop);
  edge_memory_.assign(numbers.fired, nullptr);
  constants_.resize(numbers.slots);
  missing_.assign(numbers.fired, 0);
  uses_.assign(numbers.slots, 0);
  numbers.readers.resize(numbers.fired);
  for (size_t p = 0; p < numbers.preset.size(); ++p)
    for (size_t k = 0; k < numbers.preset[p].size(); ++k) {
      constants_[numbers.first_slot[p] + k] = std::move(numbers.preset[p][k]);
      uses_[numbers.first_slot[p] + k] = kUncounted;
    }
}

void Stage::keep_fetched(const PartNode& part, const PartNumbers& numbers) {
  if (part.inputs.empty()) return;
  const uint32_t slot = numbers.slot_of(part.inputs[0]);
  slots_[{part.node, part.output}] = slot;
  if (uses_[slot] >= kUncounted) return;
  ++uses_[slot];
  kept_slots_.push_back(slot);
}

// A list of a node: in it, or past four in the stage's table.
uint32_t Stage::put_list(const std::vector<uint32_t>& list, uint32_t (&own)[4]) {
  if (list.size() <= 4) {
    std::copy(list.begin(), list.end(), own);
  } else {
    own[0] = static_cast<uint32_t>(more_.size());
    more_.insert(more_.end(), list.begin(), list.end());
  }
  return static_cast<uint32_t>(list.size());
}

// What it reads and writes, and whom it fires after.
void Stage::compile_node(size_t p, PartNumbers& numbers) {
  const PartNode& part = partition_.nodes[p];
  const uint32_t i = numbers.fires[p];
  FiringNode& node = nodes_[i];
  names_[i] = part_name(*graph_, partition_, part);
  std::vector<uint32_t> in;
  for (const PartInput& input : part.inputs) {
    in.push_back(numbers.slot_of(input));
    ++uses_[in.back()];
    if (const uint32_t from = numbers.maker_of(input); from != kNotFired)
      numbers.readers[from].insert(i);
  }
  for (int32_t before : part.controls)
    if (const uint32_t from = numbers.fires[static_cast<size_t>(before)]; from != kNotFired)
      numbers.readers[from].insert(i);
  for (int32_t opener : numbers.transparent.inherited(p))
    numbers.readers[numbers.fires[static_cast<size_t>(opener)]].insert(i);
  TROUPE_CHECK(in.size() < 65536, "node ", names_[i], " has ", in.size(), " inputs");
  node.n_in = static_cast<uint16_t>(put_list(in, node.in));
  node.out = numbers.first_slot[p];
  compile_kind(i, part, numbers);
}

void Stage::compile_kind(uint32_t i, const PartNode& part, PartNumbers& numbers) {
  FiringNode& node = nodes_[i];
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
    case PartKind::op:
      compile_op(i, part, numbers);
      break;
    case PartKind::send:
      compile_send(i, part, numbers);
      break;
    case PartKind::receive:
      receive_nodes_.emplace_back(part.edge, i);
      if (part.loop < 0) ++receives_;
      node.n_out = edge_of(partition_, part.edge).control ? 0 : 1;
      node.kind = NodeKind::source;
      break;
    case PartKind::feed:
      node.n_out = 1;
      node.kind = NodeKind::source;
      source_slots_[{part.node, part.output}] = node.out;
      slots_[{part.node, part.output}] = node.out;
      break;
    case PartKind::enter:
    case PartKind::fetch:
      break;
  }
}

void Stage::compile_op(uint32_t i, const PartNode& part, PartNumbers& numbers) {
  const Node& graph_node = graph_->node(part.node);
  FiringNode& node = nodes_[i];
  NodeView& view = views_[i];
  view = NodeView::make(graph_node, kernel_of(graph_node));
  view.lanes = host_.op_lanes;
  view.label = numbers.label + static_cast<uint64_t>(part.node) * kLabelStep;
  node.view = &view;
  node.run.store(
      is_trusted(*graph_node.op, *view.kernel) ? view.kernel->run : KernelCall::run_newest,
      std::memory_order_relaxed);
  TROUPE_CHECK(graph_node.outputs.size() < 65536, "node ", names_[i], " has ",
               graph_node.outputs.size(), " outputs");
  node.n_out = static_cast<uint16_t>(graph_node.outputs.size());
  node.in_place = graph_node.op->in_place && node.n_in > 0;
  node.kind = kind_of(graph_node, *view.kernel);
  if (node.kind == NodeKind::save) role_of_[i] = static_cast<uint32_t>(saves_++);
  if (node.kind == NodeKind::restore)
    numbers.restores.emplace_back(i, static_cast<size_t>(part.save));
  has_async_ |= node.kind == NodeKind::async;
}

void Stage::compile_send(uint32_t i, const PartNode& part, const PartNumbers& numbers) {
  auto port = std::make_unique<SendPort>();
  port->edge = part.edge;
  port->loop = part.loop < 0 ? kNoLoop : static_cast<uint32_t>(part.loop);
  port->control = part.inputs.empty();
  port->slot = part.inputs.empty() ? 0 : numbers.slot_of(part.inputs[0]);
  send_of_[i] = static_cast<int32_t>(sends_.size());
  sends_.push_back(std::move(port));
  nodes_[i].kind = NodeKind::send;
  if (!part.inputs.empty()) make_for(part.edge, numbers.maker_of(part.inputs[0]));
}

void Stage::join_nodes(const PartNumbers& numbers) {
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    // Made ready from the highest number to the lowest, so that the lowest fires first.
    const std::vector<uint32_t> to(numbers.readers[i].rbegin(), numbers.readers[i].rend());
    nodes_[i].n_to = put_list(to, nodes_[i].to);
    for (uint32_t reader : to) ++missing_[reader];
  }
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

// Where several lanes fire nodes, how early each may, so that the step takes no more memory than on
// one.
void Stage::find_earliest(const std::vector<uint32_t>& fires) {
  if (host_.lanes <= 1 || !host_.device->on_host() || is_body()) return;
  const std::vector<int32_t> earliest = earliest_firings(*graph_, partition_);
  if (std::all_of(earliest.begin(), earliest.end(), [](int32_t turn) { return turn == 0; })) return;
  // By part: the first one that fires from there on.
  std::vector<uint32_t> from(fires.size());
  uint32_t next = static_cast<uint32_t>(nodes_.size());
  for (size_t p = fires.size(); p-- > 0; from[p] = next)
    if (fires[p] != kNotFired) next = fires[p];
  earliest_.assign(nodes_.size(), 0);
  for (size_t p = 0; p < fires.size(); ++p)
    if (fires[p] != kNotFired && earliest[p] > 0)
      earliest_[fires[p]] = from[static_cast<size_t>(earliest[p])];
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

}  // namespace troupe

// Compiles a partition into the tables of a Program.
//
// Nodes keep the order of the partition (placement/partition.hpp: firing order), without the nodes
// that need no firing. A fetch is a slot that is kept. On a host device a node without inputs or
// state runs once, here, and its value has a slot that is not counted.
#include "actors/engine/program/compile.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "actors/engine/program/compile_parts.hpp"
#include "actors/engine/program/pass_through.hpp"
#include "devices/held.hpp"
#include "devices/run_context.hpp"
#include "graph/op.hpp"
#include "placement/memory_plan.hpp"

namespace troupe {
namespace {

// Edges stand by their ids.
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

// Fills in one program, in the order of its functions below.
class Compiler {
 public:
  // Requires: graph and partition of `program` are there.
  Compiler(Program& program, const CompileOptions& options)
      : program_(program),
        graph_(*program.graph),
        partition_(program.partition),
        options_(options),
        pass_through_(graph_, partition_, *options.device),
        label_(label_graph(program.graph)),
        preset_(partition_.nodes.size()) {
    program.on_host = options.device->on_host();
    program.many_lanes = options.lanes > 1;
    numbers_.fires.assign(partition_.nodes.size(), kNone);
    numbers_.first_slot.resize(partition_.nodes.size());
  }

  void number_parts();
  void make_tables();
  void compile_parts();
  void join_nodes();
  void compile_loops() { troupe::compile_loops(program_, numbers_); }
  void find_first_ready();
  void find_earliest();

 private:
  // The node that fires for what an input reads, or kNone.
  uint32_t maker_of(const PartInput& in) const {
    return numbers_.fires[pass_through_.source(static_cast<size_t>(in.node))];
  }
  const Kernel& kernel_of(const Node& node) const;
  bool preset(size_t part);
  void keep_fetched(const PartNode& part);
  void compile_node(size_t part);
  void compile_kind(uint32_t i, const PartNode& part);
  void compile_op(uint32_t i, const PartNode& part);
  void compile_send(uint32_t i, const PartNode& part);
  void compile_receive(uint32_t i, const PartNode& part);
  uint32_t put_list(const std::vector<uint32_t>& list, uint32_t (&own)[4]);
  void make_for(int32_t edge, uint32_t from);
  NodeKind kind_of(const Node& node, const Kernel& kernel) const;

  Program& program_;
  const Graph& graph_;
  const Partition& partition_;
  const CompileOptions& options_;
  const PassThroughNodes pass_through_;
  const uint64_t label_;  // of the graph
  PartNumbers numbers_;
  uint32_t node_count_ = 0, slot_count_ = 0;
  std::vector<std::vector<Tensor>> preset_;            // by part: values that are computed once
  std::vector<std::set<uint32_t>> readers_;            // by node
  std::vector<std::pair<uint32_t, size_t>> restores_;  // node -> part of its save
};

void Compiler::number_parts() {
  for (size_t p = 0; p < partition_.nodes.size(); ++p) {
    const PartNode& part = partition_.nodes[p];
    numbers_.first_slot[p] = slot_count_;
    if (part.kind == PartKind::fetch) continue;
    size_t outputs = part.kind == PartKind::send ? 0 : 1;
    bool fires = part.kind != PartKind::enter;
    if (part.kind == PartKind::op) {
      if (pass_through_.is(p) && !part.inputs.empty()) {
        numbers_.first_slot[p] = numbers_.slot_of(part.inputs[0]);
        kernel_of(graph_.node(part.node));
        continue;
      }
      fires = !preset(p);
    }
    // A loop whose opener is on another device has no outputs.
    if (part.kind == PartKind::op || part.kind == PartKind::loop) {
      outputs = graph_.node(part.node).outputs.size();
      for (size_t k = 0; k < outputs; ++k)
        program_.interface.slots[{part.node, static_cast<int32_t>(k)}] =
            slot_count_ + static_cast<uint32_t>(k);
    }
    slot_count_ += static_cast<uint32_t>(outputs);
    if (fires) numbers_.fires[p] = node_count_++;
  }
}

const Kernel& Compiler::kernel_of(const Node& node) const {
  if (const Kernel* kernel = options_.device->kernel_for(node)) return *kernel;
  throw Error(Errc::invalid_argument, "node ", node.name, " (", node.op->name, ", made at ",
              node.file, ":", node.line, ") has no kernel for ", dispatch_dtype(node), " on ",
              partition_.device, "; place it on a cpu device");
}

// Computes the node's values if they are the same in all steps. False: it fires.
bool Compiler::preset(size_t p) {
  const PartNode& part = partition_.nodes[p];
  const Node& node = graph_.node(part.node);
  const Kernel& kernel = kernel_of(node);
  const bool fixed = part.inputs.empty() && (part.controls.empty() || pass_through_.is(p)) &&
                     !node.op->stateful && kernel.run && program_.on_host;
  if (!fixed) return false;
  NodeView view = NodeView::make(node, kernel);
  view.label = label_ + static_cast<uint64_t>(part.node) * kLabelStep;
  const RunContext no_step{.run = kBetweenSteps};
  preset_[p] = run_kernel(view, {}, options_.device->memory(), no_step);
  return true;
}

void Compiler::make_tables() {
  Program::Nodes& nodes = program_.nodes;
  nodes.firing = std::vector<FiringNode>(node_count_);
  nodes.codes.resize(node_count_);
  nodes.names.resize(node_count_);
  nodes.roles.assign(node_count_, kNone);
  nodes.edge_memory.assign(node_count_, nullptr);
  program_.initial.values.resize(slot_count_);
  program_.initial.missing.assign(node_count_, 0);
  program_.initial.uses.assign(slot_count_, 0);
  readers_.resize(node_count_);
  for (size_t p = 0; p < preset_.size(); ++p)
    for (size_t k = 0; k < preset_[p].size(); ++k) {
      program_.initial.values[numbers_.first_slot[p] + k] = std::move(preset_[p][k]);
      program_.initial.uses[numbers_.first_slot[p] + k] = kUncounted;
    }
}

void Compiler::compile_parts() {
  for (size_t p = 0; p < partition_.nodes.size(); ++p)
    if (partition_.nodes[p].kind == PartKind::fetch)
      keep_fetched(partition_.nodes[p]);
    else if (numbers_.fires[p] != kNone)
      compile_node(p);
  std::vector<Program::Receive>& receives = program_.edges.receives;
  std::sort(receives.begin(), receives.end(),
            [](const Program::Receive& a, const Program::Receive& b) { return a.id < b.id; });
}

void Compiler::keep_fetched(const PartNode& part) {
  if (part.inputs.empty()) return;
  const uint32_t slot = numbers_.slot_of(part.inputs[0]);
  program_.interface.slots[{part.node, part.output}] = slot;
  if (program_.initial.uses[slot] >= kUncounted) return;
  ++program_.initial.uses[slot];
  program_.interface.kept.push_back(slot);
}

// Puts a list of a node into the node, or past four into the program's table.
uint32_t Compiler::put_list(const std::vector<uint32_t>& list, uint32_t (&own)[4]) {
  std::vector<uint32_t>& table = program_.nodes.lists;
  if (list.size() <= 4) {
    std::copy(list.begin(), list.end(), own);
  } else {
    own[0] = static_cast<uint32_t>(table.size());
    table.insert(table.end(), list.begin(), list.end());
  }
  return static_cast<uint32_t>(list.size());
}

// The slots that a node reads and writes, and the nodes that it fires after.
void Compiler::compile_node(size_t p) {
  const PartNode& part = partition_.nodes[p];
  const uint32_t i = numbers_.fires[p];
  FiringNode& node = program_.nodes.firing[i];
  std::string& name = program_.nodes.names[i] = part_name(graph_, partition_, part);
  std::vector<uint32_t> in;
  for (const PartInput& input : part.inputs) {
    in.push_back(numbers_.slot_of(input));
    ++program_.initial.uses[in.back()];
    if (const uint32_t from = maker_of(input); from != kNone) readers_[from].insert(i);
  }
  for (int32_t before : part.controls)
    if (const uint32_t from = numbers_.fires[static_cast<size_t>(before)]; from != kNone)
      readers_[from].insert(i);
  for (int32_t opener : pass_through_.inherited(p))
    readers_[numbers_.fires[static_cast<size_t>(opener)]].insert(i);
  TROUPE_CHECK(in.size() < 65536, "node ", name, " has ", in.size(), " inputs");
  node.n_in = static_cast<uint16_t>(put_list(in, node.in));
  node.out = numbers_.first_slot[p];
  compile_kind(i, part);
}

void Compiler::compile_kind(uint32_t i, const PartNode& part) {
  FiringNode& node = program_.nodes.firing[i];
  switch (part.kind) {
    case PartKind::loop:
      node.n_out = static_cast<uint16_t>(graph_.node(part.node).outputs.size());
      node.kind = NodeKind::loop;
      break;
    case PartKind::turn:
      node.kind = NodeKind::turn;
      break;
    case PartKind::ack:
      compile_receive(i, part);
      break;
    case PartKind::op:
      compile_op(i, part);
      break;
    case PartKind::send:
      compile_send(i, part);
      break;
    case PartKind::receive:
      compile_receive(i, part);
      if (part.loop < 0) ++program_.edges.awaited;
      node.n_out = edge_of(partition_, part.edge).control ? 0 : 1;
      break;
    case PartKind::feed:
      node.n_out = 1;
      node.kind = NodeKind::source;
      program_.interface.sources[{part.node, part.output}] = node.out;
      program_.interface.slots[{part.node, part.output}] = node.out;
      break;
    case PartKind::enter:
    case PartKind::fetch:
      break;
  }
}

void Compiler::compile_receive(uint32_t i, const PartNode& part) {
  program_.nodes.firing[i].kind = NodeKind::source;
  program_.edges.receives.push_back({part.edge, i, &edge_of(partition_, part.edge)});
}

void Compiler::compile_op(uint32_t i, const PartNode& part) {
  const Node& graph_node = graph_.node(part.node);
  FiringNode& node = program_.nodes.firing[i];
  const auto code = std::make_shared<OpCode>(graph_node, kernel_of(graph_node));
  code->view.lanes = options_.op_lanes;
  code->view.label = label_ + static_cast<uint64_t>(part.node) * kLabelStep;
  program_.nodes.codes[i] = code;
  node.code.store(&code->view, std::memory_order_relaxed);
  TROUPE_CHECK(graph_node.outputs.size() < 65536, "node ", program_.nodes.names[i], " has ",
               graph_node.outputs.size(), " outputs");
  node.n_out = static_cast<uint16_t>(graph_node.outputs.size());
  node.in_place = graph_node.op->in_place && node.n_in > 0;
  node.kind = kind_of(graph_node, *code->view.kernel);
  if (node.kind == NodeKind::save)
    program_.nodes.roles[i] = static_cast<uint32_t>(program_.saves++);
  if (node.kind == NodeKind::restore) restores_.emplace_back(i, static_cast<size_t>(part.save));
  program_.has_async |= node.kind == NodeKind::async;
}

void Compiler::compile_send(uint32_t i, const PartNode& part) {
  const bool control = part.inputs.empty();
  program_.nodes.firing[i].kind = NodeKind::send;
  program_.nodes.roles[i] = static_cast<uint32_t>(program_.edges.sends.size());
  program_.edges.sends.push_back({part.edge, control ? 0 : numbers_.slot_of(part.inputs[0]),
                                  control,
                                  part.loop < 0 ? kNone : static_cast<uint32_t>(part.loop)});
  if (!control) make_for(part.edge, maker_of(part.inputs[0]));
}

// The kernel of node `from` makes a value that leaves over that edge. The first of several edges
// counts.
void Compiler::make_for(int32_t edge, uint32_t from) {
  if (from == kNone || !options_.edge_memory) return;
  FiringNode& node = program_.nodes.firing[from];
  Memory*& memory = program_.nodes.edge_memory[from];
  if (memory || node.kind != NodeKind::plain) return;
  memory = options_.edge_memory(edge_of(partition_, edge));
  node.leaves = memory != nullptr;
}

NodeKind Compiler::kind_of(const Node& node, const Kernel& kernel) const {
  switch (node.op->control) {
    case ControlKind::branch:
      TROUPE_CHECK(program_.on_host, "the ", describe(node), " is on ", partition_.device,
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
      return !kernel.run ? NodeKind::async : program_.on_host ? NodeKind::plain : NodeKind::queued;
  }
}

void Compiler::join_nodes() {
  std::vector<FiringNode>& nodes = program_.nodes.firing;
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    // Made ready from the highest number to the lowest, so that the lowest fires first.
    const std::vector<uint32_t> to(readers_[i].rbegin(), readers_[i].rend());
    nodes[i].n_to = put_list(to, nodes[i].to);
    for (uint32_t reader : to) ++program_.initial.missing[reader];
  }
  for (const auto& [i, save] : restores_)
    program_.nodes.roles[i] = program_.nodes.roles[numbers_.fires[save]];
}

// The nodes that are ready as soon as the step, or the iteration, is armed. A receive is ready when
// its value comes.
void Compiler::find_first_ready() {
  for (size_t p = partition_.nodes.size(); p-- > 0;) {
    const PartNode& part = partition_.nodes[p];
    const uint32_t i = numbers_.fires[p];
    if (i == kNone || program_.initial.missing[i] != 0) continue;
    if (part.kind == PartKind::receive || part.kind == PartKind::ack) continue;
    (part.loop < 0 ? program_.initial.first_ready
                   : program_.loops[static_cast<size_t>(part.loop)].first_ready)
        .push_back(i);
  }
}

// Where several lanes fire nodes: how early each node may fire, so that the step takes no more
// memory than on one lane.
void Compiler::find_earliest() {
  if (!program_.many_lanes || !program_.on_host || program_.is_body()) return;
  const std::vector<int32_t> earliest = earliest_firings(graph_, partition_);
  if (std::all_of(earliest.begin(), earliest.end(), [](int32_t turn) { return turn == 0; })) return;
  // By part: the first node that fires from there on.
  const std::vector<uint32_t>& fires = numbers_.fires;
  std::vector<uint32_t> from(fires.size());
  uint32_t next = node_count_;
  for (size_t p = fires.size(); p-- > 0; from[p] = next)
    if (fires[p] != kNone) next = fires[p];
  program_.nodes.earliest.assign(node_count_, 0);
  for (size_t p = 0; p < fires.size(); ++p)
    if (fires[p] != kNone && earliest[p] > 0)
      program_.nodes.earliest[fires[p]] = from[static_cast<size_t>(earliest[p])];
}

Program compile_one(const std::shared_ptr<const Graph>& graph, Partition partition,
                    const CompileOptions& options) {
  Program program;
  program.graph = graph;
  program.partition = std::move(partition);
  Compiler compiler(program, options);
  compiler.number_parts();
  compiler.make_tables();
  compiler.compile_parts();
  compiler.join_nodes();
  compiler.compile_loops();
  compiler.find_first_ready();
  compiler.find_earliest();
  return program;
}

}  // namespace

Program compile(std::shared_ptr<const Graph> graph, Partition partition,
                const CompileOptions& options) {
  std::vector<Partition> functions = std::exchange(partition.functions, {});
  Program program = compile_one(graph, std::move(partition), options);
  for (Partition& body : functions)
    program.functions.push_back(compile_one(graph, std::move(body), options));
  link_calls(program);
  return program;
}

}  // namespace troupe

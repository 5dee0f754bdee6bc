// Compiles a partition into the tables of its Program and of those of its loops' bodies.
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
#include "graph/parameter_nodes.hpp"
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

// Fills in one program and those of its loops, in the order of its functions below.
class Compiler {
 public:
  // Requires: graph, partition and an empty body for each loop of `program` are there.
  Compiler(Program& program, const CompileOptions& options)
      : program_(program),
        graph_(*program.graph),
        partition_(program.partition),
        options_(options),
        pass_through_(graph_, partition_, *options.device),
        label_(label_graph(program.graph)),
        codes_(partition_.nodes.size()),
        preset_(partition_.nodes.size()) {
    tables_.push_back({&program});
    for (Program& body : program.bodies) tables_.push_back({&body});
    for (Table& table : tables_) {
      table.program->graph = program.graph;
      table.program->partition.device = partition_.device;
      table.program->on_host = options.device->on_host();
      table.program->many_lanes = options.lanes > 1;
    }
    numbers_.fires.assign(partition_.nodes.size(), kNone);
    numbers_.first_slot.resize(partition_.nodes.size());
  }

  void number_parts();
  void make_tables();
  void compile_parts();
  void join_nodes();
  void add_function_end();
  void compile_loops() { troupe::compile_loops(program_, numbers_); }
  void find_first_ready();
  void find_earliest();

 private:
  // A program, and what is known of it while it is made.
  struct Table {
    Program* program;
    uint32_t nodes = 0, slots = 0;
    std::vector<std::set<uint32_t>> readers;  // by node
  };
  // The innermost loop's around the node, or that of the whole partition.
  Table& table_of(const PartNode& part) { return tables_[static_cast<size_t>(part.loop) + 1]; }
  // The node that fires for what an input reads, or kNone.
  uint32_t maker_of(const PartInput& in) const {
    return numbers_.fires[pass_through_.source(static_cast<size_t>(in.node))];
  }
  const Kernel& kernel_of(const Node& node) const;
  bool preset(size_t part);
  void keep_fetched(const PartNode& part);
  void compile_node(size_t part);
  void compile_kind(Program& program, uint32_t i, const PartNode& part);
  void compile_op(Program& program, uint32_t i, const PartNode& part);
  void compile_send(Program& program, uint32_t i, const PartNode& part);
  void compile_receive(Program& program, uint32_t i, const PartNode& part);
  void make_in(Memory* memory, Program& program, uint32_t from);
  NodeKind kind_of(const Node& node, const Kernel& kernel) const;

  Program& program_;
  const Graph& graph_;
  const Partition& partition_;
  const CompileOptions& options_;
  const PassThroughNodes pass_through_;
  const uint64_t label_;  // of the graph
  OpCodes codes_;
  PartNumbers numbers_;
  std::vector<Table> tables_;                // of the whole partition, then by loop
  std::vector<std::vector<Tensor>> preset_;  // by part: values that are computed once
  std::vector<size_t> restores_;             // parts
};

// The values that a part reads are in the same program: a loop has a node for each that enters it.
void Compiler::number_parts() {
  for (size_t p = 0; p < partition_.nodes.size(); ++p) {
    const PartNode& part = partition_.nodes[p];
    Table& table = table_of(part);
    numbers_.first_slot[p] = table.slots;
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
        table.program->interface.slots[{part.node, static_cast<int32_t>(k)}] =
            table.slots + static_cast<uint32_t>(k);
    }
    table.slots += static_cast<uint32_t>(outputs);
    if (fires) numbers_.fires[p] = table.nodes++;
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
  if (program_.is_function()) ++tables_[0].nodes;  // its end
  for (Table& table : tables_) {
    Program::Nodes& nodes = table.program->nodes;
    nodes.firing = std::vector<FiringNode>(table.nodes);
    nodes.codes.resize(table.nodes);
    nodes.names.resize(table.nodes);
    nodes.roles.assign(table.nodes, kNone);
    nodes.edge_memory.assign(table.nodes, nullptr);
    Program::Initial& initial = table.program->initial;
    initial.values.resize(table.slots);
    initial.missing.assign(table.nodes, 0);
    initial.uses.assign(table.slots, 0);
    table.readers.resize(table.nodes);
  }
  for (size_t p = 0; p < preset_.size(); ++p) {
    Program::Initial& initial = table_of(partition_.nodes[p]).program->initial;
    for (size_t k = 0; k < preset_[p].size(); ++k) {
      initial.values[numbers_.first_slot[p] + k] = std::move(preset_[p][k]);
      initial.uses[numbers_.first_slot[p] + k] = kUncounted;
    }
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
uint32_t put_list(Program& program, const std::vector<uint32_t>& list, uint32_t (&own)[4]) {
  std::vector<uint32_t>& table = program.nodes.lists;
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
  auto& [program, node_count, slot_count, readers] = table_of(part);
  FiringNode& node = program->nodes.firing[i];
  std::string& name = program->nodes.names[i] = part_name(graph_, partition_, part);
  std::vector<uint32_t> in;
  for (const PartInput& input : part.inputs) {
    in.push_back(numbers_.slot_of(input));
    ++program->initial.uses[in.back()];
    if (const uint32_t from = maker_of(input); from != kNone) readers[from].insert(i);
  }
  for (int32_t before : part.controls)
    if (const uint32_t from = numbers_.fires[static_cast<size_t>(before)]; from != kNone)
      readers[from].insert(i);
  for (int32_t opener : pass_through_.inherited(p))
    readers[numbers_.fires[static_cast<size_t>(opener)]].insert(i);
  TROUPE_CHECK(in.size() < 65536, "node ", name, " has ", in.size(), " inputs");
  node.n_in = static_cast<uint16_t>(put_list(*program, in, node.in));
  node.out = numbers_.first_slot[p];
  compile_kind(*program, i, part);
}

void Compiler::compile_kind(Program& program, uint32_t i, const PartNode& part) {
  FiringNode& node = program.nodes.firing[i];
  switch (part.kind) {
    case PartKind::loop:
      node.n_out = static_cast<uint16_t>(graph_.node(part.node).outputs.size());
      node.kind = NodeKind::loop;
      break;
    case PartKind::turn:
      node.kind = NodeKind::end;
      break;
    case PartKind::ack:
      compile_receive(program, i, part);
      break;
    case PartKind::op:
      compile_op(program, i, part);
      break;
    case PartKind::send:
      compile_send(program, i, part);
      break;
    case PartKind::receive:
      compile_receive(program, i, part);
      if (part.loop < 0) ++program_.edges.awaited;
      node.n_out = edge_of(partition_, part.edge).control ? 0 : 1;
      break;
    case PartKind::feed:
      node.n_out = 1;
      node.kind = NodeKind::source;
      program.interface.sources[{part.node, part.output}] = node.out;
      program.interface.slots[{part.node, part.output}] = node.out;
      break;
    case PartKind::enter:
    case PartKind::fetch:
      break;
  }
}

void Compiler::compile_receive(Program& program, uint32_t i, const PartNode& part) {
  program.nodes.firing[i].kind = NodeKind::source;
  program_.edges.receives.push_back({.id = part.edge,
                                     .node = i,
                                     .edge = &edge_of(partition_, part.edge),
                                     .name = program.nodes.names[i]});
}

void Compiler::compile_op(Program& program, uint32_t i, const PartNode& part) {
  const Node& graph_node = graph_.node(part.node);
  FiringNode& node = program.nodes.firing[i];
  const std::shared_ptr<OpCode> code = codes_.make(graph_node, kernel_of(graph_node));
  code->view.lanes = options_.op_lanes;
  code->view.label = label_ + static_cast<uint64_t>(part.node) * kLabelStep;
  program.nodes.codes[i] = code;
  node.code.store(&code->view, std::memory_order_relaxed);
  TROUPE_CHECK(graph_node.outputs.size() < 65536, "node ", program.nodes.names[i], " has ",
               graph_node.outputs.size(), " outputs");
  node.n_out = static_cast<uint16_t>(graph_node.outputs.size());
  node.in_place = graph_node.op->in_place && node.n_in > 0;
  node.kind = kind_of(graph_node, *code->view.kernel);
  if (node.kind == NodeKind::save) program.nodes.roles[i] = static_cast<uint32_t>(program_.saves++);
  if (node.kind == NodeKind::restore)
    restores_.push_back(static_cast<size_t>(&part - partition_.nodes.data()));
  program_.has_async |= node.kind == NodeKind::async;
  if (pushes_gradient(graph_node)) make_in(options_.push_memory, program, maker_of(part.inputs[0]));
}

void Compiler::compile_send(Program& program, uint32_t i, const PartNode& part) {
  const bool control = part.inputs.empty();
  program.nodes.firing[i].kind = NodeKind::send;
  program.nodes.roles[i] = static_cast<uint32_t>(program_.edges.sends.size());
  program_.edges.sends.push_back({part.edge, control ? 0 : numbers_.slot_of(part.inputs[0]),
                                  control,
                                  part.loop < 0 ? kNone : static_cast<uint32_t>(part.loop)});
  if (!control && options_.edge_memory)
    make_in(options_.edge_memory(edge_of(partition_, part.edge)), program,
            maker_of(part.inputs[0]));
}

// The kernel of node `from` makes a value that leaves. The first of several ways out counts.
void Compiler::make_in(Memory* memory, Program& program, uint32_t from) {
  if (from == kNone || !memory) return;
  FiringNode& node = program.nodes.firing[from];
  if (node.leaves || node.kind != NodeKind::plain) return;
  program.nodes.edge_memory[from] = memory;
  node.leaves = true;
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

// A call ends when the last node of the body fires, which waits for all nodes without readers.
void Compiler::add_function_end() {
  if (!program_.is_function()) return;
  const auto end = static_cast<uint32_t>(program_.nodes.firing.size() - 1);
  program_.nodes.firing[end].kind = NodeKind::end;
  program_.nodes.names[end] =
      detail::concat("End of ", graph_.node(program_.partition.function).name);
  for (uint32_t i = 0; i < end; ++i)
    if (tables_[0].readers[i].empty()) tables_[0].readers[i].insert(end);
}

void Compiler::join_nodes() {
  for (const auto& [program, node_count, slot_count, readers] : tables_)
    for (uint32_t i = 0; i < node_count; ++i) {
      FiringNode& node = program->nodes.firing[i];
      // Made ready from the highest number to the lowest, so that the lowest fires first.
      const std::vector<uint32_t> to(readers[i].rbegin(), readers[i].rend());
      node.n_to = put_list(*program, to, node.to);
      for (uint32_t reader : to) ++program->initial.missing[reader];
    }
  for (size_t p : restores_) {
    const PartNode& part = partition_.nodes[p];
    const auto save = static_cast<size_t>(part.save);
    table_of(part).program->nodes.roles[numbers_.fires[p]] =
        table_of(partition_.nodes[save]).program->nodes.roles[numbers_.fires[save]];
  }
}

// The nodes that are ready as soon as the step, or the iteration, is armed. A receive is ready when
// its value comes.
void Compiler::find_first_ready() {
  for (const auto& [program, node_count, slot_count, readers] : tables_) {
    std::vector<bool> comes(node_count);
    for (const Program::Receive& receive : program_.edges.receives)
      if (tables_[receive.loop + 1].program == program) comes[receive.node] = true;
    for (uint32_t i = node_count; i-- > 0;)
      if (program->initial.missing[i] == 0 && !comes[i]) program->initial.first_ready.push_back(i);
  }
}

// Where several lanes fire nodes: how early each node may fire, so that the step takes no more
// memory than on one lane.
void Compiler::find_earliest() {
  if (!program_.many_lanes || !program_.on_host || program_.is_function()) return;
  const std::vector<int32_t> earliest = earliest_firings(graph_, partition_);
  if (std::all_of(earliest.begin(), earliest.end(), [](int32_t turn) { return turn == 0; })) return;
  // By part: the first node that fires from there on; from inside a loop, when the loop has ended.
  const std::vector<uint32_t>& fires = numbers_.fires;
  std::vector<uint32_t> from(fires.size());
  uint32_t next = tables_[0].nodes, after_loop = next;
  for (size_t p = fires.size(); p-- > 0;) {
    const PartNode& part = partition_.nodes[p];
    if (part.kind == PartKind::loop && part.loop < 0) after_loop = next;
    if (part.loop < 0 && fires[p] != kNone) next = fires[p];
    from[p] = part.loop < 0 ? next : after_loop;
  }
  program_.nodes.earliest.assign(tables_[0].nodes, 0);
  for (size_t p = 0; p < fires.size(); ++p)
    if (fires[p] != kNone && earliest[p] > 0)
      program_.nodes.earliest[fires[p]] = from[static_cast<size_t>(earliest[p])];
}

Program compile_one(const std::shared_ptr<const Graph>& graph, Partition partition,
                    const CompileOptions& options) {
  Program program;
  program.graph = graph;
  program.partition = std::move(partition);
  program.bodies.resize(program.partition.loops.size());
  Compiler compiler(program, options);
  compiler.number_parts();
  compiler.make_tables();
  compiler.compile_parts();
  compiler.add_function_end();
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
  const size_t loops = program.bodies.size();
  for (Partition& body : functions)
    program.bodies.push_back(compile_one(graph, std::move(body), options));
  // The bodies of a function's loops stand behind those of all functions.
  for (size_t f = 0; f < functions.size(); ++f) {
    std::vector<Program> inner = std::exchange(program.bodies[loops + f].bodies, {});
    for (Program::Loop& loop : program.bodies[loops + f].loops)
      loop.body += static_cast<uint32_t>(program.bodies.size());
    for (Program& body : inner) program.bodies.push_back(std::move(body));
  }
  link_calls(program);
  return program;
}

}  // namespace troupe

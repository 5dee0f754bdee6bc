// The cut of a graph into partitions, in one pass over the needed nodes. placement/firing_order.cpp
// orders the nodes of each partition.
#include "placement/partition.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "graph/op.hpp"
#include "graph/op_properties.hpp"
#include "graph/prune.hpp"
#include "placement/memory_plan.hpp"
#include "troupe/op.hpp"

namespace troupe {
namespace {

// Grows all partitions at the same time. Nodes are added in the order of their ids, a Receive right
// before its first reader and a Send when its first reader is found, so that every partition is
// always in topological order.
class Cutter {
 public:
  Cutter(const Graph& graph, const std::map<int32_t, std::string>& device_of, std::string client)
      : graph_(graph), device_of_(device_of), client_(std::move(client)) {}

  void feed(const Output& output) {
    const int32_t at =
        append(client_, {.kind = PartKind::feed, .node = output.node, .output = output.index});
    values_[{client_, output.node, output.index}] = {at, 0};
    fed_.insert(output);
  }

  void run(const Node& node, const std::set<int32_t>& needed) {
    const std::string& device = device_of(node.id);
    const ControlKind kind = node.op->control;
    if (kind == ControlKind::repeat) return run_loop(node);
    if (kind == ControlKind::function) return;  // its body represents it
    if (kind == ControlKind::result) return give_back(node);
    check_function_border(node);
    PartNode part{.kind = PartKind::op, .node = node.id};
    part.loop = enter_loop(loop_of(node), device);
    const bool enters = part.loop >= 0 &&
                        (kind == ControlKind::capture || kind == ControlKind::variable) &&
                        node.frame == loop_of(node);
    if (!enters)
      for (const Output& input : node.inputs) part.inputs.push_back(value(input, device));
    for (int32_t id : node.control_inputs)
      if (needed.count(id)) run_after(part, node, id, device);
    if (enters)
      part.kind = PartKind::enter;
    else if (kind == ControlKind::argument)
      part.kind = PartKind::feed;
    else
      tie_to_iteration(part, node, device);
    const int32_t loop = part.loop;
    const int32_t at = append(device, std::move(part));
    if (enters) bring_in(node, device, loop, at);
    for (int32_t i = 0; i < static_cast<int32_t>(node.outputs.size()); ++i)
      if (!fed_.count(output_of(node.id, i))) values_[{device, node.id, i}] = {at, i};
    values_[{device, node.id, kRan}] = {at, 0};
  }

  void fetch(const Output& output) {
    PartNode part{.kind = PartKind::fetch, .node = output.node, .output = output.index};
    if (graph_.node(output.node).outputs.empty())
      add_control(part, ran(output.node, client_));
    else
      part.inputs.push_back(value(output, client_));
    fetches_.push_back(std::move(part));
  }

  std::vector<Partition> finish() {
    finish_loops();
    for (PartNode& part : fetches_) append(client_, std::move(part));
    finish_functions();
    std::vector<Partition> result;
    const auto take = [&](Partition& partition) {
      std::sort(partition.edges.begin(), partition.edges.end(),
                [](const Edge& a, const Edge& b) { return a.id < b.id; });
      put_in_order(partition);
      result.push_back(std::move(partition));
    };
    if (const auto it = partitions_.find(client_); it != partitions_.end()) take(it->second);
    for (auto& [device, partition] : partitions_)
      if (device != client_) take(partition);
    return result;
  }

 private:
  // Special values in place of an output's index: the node has run; an iteration of its loop
  // begins.
  static constexpr int32_t kRan = -1, kTick = -2;
  // Device, node, output. The device names are those in device_of_ and client_, which outlive the
  // keys.
  using Key = std::tuple<std::string_view, int32_t, int32_t>;
  struct KeyHash {
    size_t operator()(const Key& key) const {
      const auto& [device, node, output] = key;
      const auto value =
          static_cast<uint64_t>(static_cast<uint32_t>(node)) << 32 | static_cast<uint32_t>(output);
      return std::hash<std::string_view>()(device) ^ value * 0x9e3779b97f4a7c15u;
    }
  };

  // Order by number, unless one of two other orders takes at least a sixteenth less memory in a
  // step: nodes with the shortest way to the end first; or the same with nodes late that leave more
  // than they read.
  void put_in_order(Partition& partition) const {
    constexpr int64_t kWorthALook = int64_t{1} << 20;
    if (bytes_made(graph_, partition) < kWorthALook) return put_in_firing_order(partition);
    Partition soon = partition;
    put_in_firing_order(partition);
    put_in_firing_order(soon, FireFirst::shortest);
    int64_t peak = peak_bytes(graph_, partition);
    Partition late = partition;
    const auto take_if_less = [&](Partition& other) {
      const int64_t its = peak_bytes(graph_, other);
      if (its > peak - peak / 16) return;
      peak = its;
      partition = std::move(other);
    };
    const std::vector<bool> leaving = leaves_more(graph_, late);
    take_if_less(soon);
    if (std::find(leaving.begin(), leaving.end(), true) == leaving.end()) return;
    put_in_firing_order(late, FireFirst::shortest, leaving);
    take_if_less(late);
  }

  Output output_of(int32_t node, int32_t index) const {
    return {const_cast<Graph*>(&graph_), node, index};
  }

  const std::string& placed(int32_t node) const {
    const auto it = device_of_.find(node);
    TROUPE_CHECK(it != device_of_.end(), "the ", describe(graph_.node(node)),
                 " has not been placed");
    return it->second;
  }
  // Nodes of a function have a device of their own, with a name that no device has: that of its
  // body.
  const std::string& device_of(int32_t node) {
    const int32_t function = function_of(graph_.node(node));
    return function < 0 ? placed(node) : body_of(function);
  }

  int32_t append(const std::string& device, PartNode node) {
    Partition& partition = partitions_[device];
    partition.device = device;
    partition.nodes.push_back(std::move(node));
    return static_cast<int32_t>(partition.nodes.size()) - 1;
  }

  // A long list may hold a node several times until put_in_firing_order().
  static void add_control(PartNode& part, int32_t from) {
    constexpr size_t kLong = 16;
    if (part.controls.size() >= kLong ||
        std::find(part.controls.begin(), part.controls.end(), from) == part.controls.end())
      part.controls.push_back(from);
  }

  PartInput value(const Output& output, const std::string& device) {
    const std::string& home = fed_.count(output) ? client_ : device_of(output.node);
    return at(home, output.node, output.index, device);
  }
  int32_t ran(int32_t node, const std::string& device) {
    return at(device_of(node), node, kRan, device).node;
  }

  // The place of a value in the partition of `device`; sends it there if it is missing.
  PartInput at(const std::string& home, int32_t node, int32_t output, const std::string& device) {
    const auto found = values_.find({device, node, output});
    if (found != values_.end()) return found->second;
    TROUPE_CHECK(device != home, "output ", output, " of the ", describe(graph_.node(node)),
                 " is read before it is there");
    const bool tick = output == kTick, control = output == kRan || tick;
    const PartInput from = tick ? PartInput{} : values_.at({home, node, output});
    Edge edge{.id = edges_++,
              .node = node,
              .output = control ? 0 : output,
              .source = home,
              .destination = device};
    edge.control = control;
    edge.dtype = control ? DType::u8 : graph_.node(node).outputs[static_cast<size_t>(output)].dtype;
    edge.shape = control ? Shape{0} : graph_.node(node).outputs[static_cast<size_t>(output)].shape;

    edge.loop = tick ? node : loop_of(graph_.node(node));

    PartNode send{.kind = PartKind::send, .edge = edge.id};
    if (!control)
      send.inputs.push_back(from);
    else if (!tick)
      send.controls.push_back(from.node);
    send.loop = enter_loop(edge.loop, home);
    append(home, std::move(send));
    PartNode receive{.kind = PartKind::receive, .edge = edge.id};
    receive.loop = enter_loop(edge.loop, device);
    const PartInput here{append(device, std::move(receive)), 0};
    values_[{device, node, output}] = here;
    partitions_[home].edges.push_back(edge);
    partitions_[device].edges.push_back(std::move(edge));
    return here;
  }

  // Functions

  int32_t function_of(const Node& node) const {
    int32_t frame = node.frame;
    while (frame >= 0 && graph_.node(frame).op->control != ControlKind::function)
      frame = graph_.node(frame).frame;
    return frame;
  }

  const std::string& body_of(int32_t opener) {
    std::string& name = bodies_[opener];
    if (name.empty()) name = placed(opener) + "|" + graph_.node(opener).name;
    return name;
  }

  // A body is on one device, and its only inputs are arguments.
  void check_function_border(const Node& node) {
    const int32_t function = function_of(node);
    if (node.op->control == ControlKind::capture && function >= 0 && node.frame == function)
      throw Error(Errc::invalid_argument, describe(node), ": the ", describe(graph_.node(function)),
                  " reads what is around it; a function that is "
                  "called takes all as arguments");
    const Node* other = function >= 0 ? &graph_.node(function) : nullptr;
    if (node.op->control == ControlKind::call)
      other = graph_.find(properties_of(node).frame.function(node));
    if (other && placed(node.id) != placed(other->id))
      throw Error(Errc::invalid_argument, describe(node), ": is on ", placed(node.id), ", the ",
                  describe(*other), " on ", placed(other->id),
                  "; a function that is called, its body and its calls stand on one device");
  }

  void give_back(const Node& node) {
    const std::string& device = device_of(node.id);
    for (size_t i = 0; i < node.inputs.size(); ++i)
      returned_[function_of(node)].push_back({.kind = PartKind::fetch,
                                              .node = node.id,
                                              .output = static_cast<int32_t>(i),
                                              .inputs = {value(node.inputs[i], device)}});
  }

  void finish_functions() {
    for (const auto& [opener, name] : bodies_) {
      for (PartNode& part : returned_[opener]) append(name, std::move(part));
      auto body = partitions_.extract(name);
      body.mapped().device = placed(opener);
      body.mapped().function = opener;
      put_in_order(body.mapped());
      partitions_[placed(opener)].functions.push_back(std::move(body.mapped()));
    }
  }

  // Loops

  // The node that opens the innermost loop that `node` is in; -1: none.
  int32_t loop_of(const Node& node) const {
    int32_t frame = node.frame;
    while (frame >= 0 && graph_.node(frame).op->control != ControlKind::loop)
      frame = graph_.node(frame).frame;
    return frame;  // a running function is in no loop
  }
  // The loops from the outermost one down to the one that `opener` opens.
  std::vector<int32_t> loops_to(int32_t opener) const {
    std::vector<int32_t> chain;
    for (; opener >= 0; opener = loop_of(graph_.node(opener))) chain.push_back(opener);
    std::reverse(chain.begin(), chain.end());
    return chain;
  }

  // The number of the loop on `device`, which joins the loop if it has not yet.
  int32_t enter_loop(int32_t opener, const std::string& device) {
    if (opener < 0) return -1;
    if (const auto known = loops_.find({opener, device}); known != loops_.end())
      return known->second;
    PartNode driver{.kind = PartKind::loop, .node = opener};
    driver.loop = enter_loop(loop_of(graph_.node(opener)), device);
    driver.controls.push_back(ran(opener, device));
    PartLoop loop{.opener = opener, .parent = driver.loop};
    loop.in_flight = properties_of(graph_.node(opener)).frame.at_most(graph_.node(opener));
    loop.driver = append(device, std::move(driver));
    std::vector<PartLoop>& loops = partitions_[device].loops;
    loops.push_back(std::move(loop));
    return loops_[{opener, device}] = static_cast<int32_t>(loops.size()) - 1;
  }
  PartLoop& loop_at(int32_t opener, const std::string& device) {
    return partitions_[device].loops[static_cast<size_t>(loops_.at({opener, device}))];
  }
  PartNode& driver_at(int32_t opener, const std::string& device) {
    return node_at(device, loop_at(opener, device).driver);
  }
  PartNode& node_at(const std::string& device, int32_t at) {
    return partitions_[device].nodes[static_cast<size_t>(at)];
  }

  void bring_in(const Node& node, const std::string& device, int32_t loop, int32_t at) {
    const PartInput from = value(node.inputs[0], device);
    PartLoop& inner = partitions_[device].loops[static_cast<size_t>(loop)];
    PartNode& driver = node_at(device, inner.driver);
    (node.op->control == ControlKind::variable ? inner.variables : inner.captured)
        .push_back({static_cast<int32_t>(driver.inputs.size()), at});
    driver.inputs.push_back(from);
  }

  // The loop as a node, at home.
  void run_loop(const Node& repeat) {
    const std::string& device = device_of(repeat.id);
    const size_t variables = repeat.inputs.size() / 2;
    const int32_t opener = graph_.node(repeat.inputs[0].node).frame;
    deciding_[opener] = graph_.node(repeat.inputs[variables].node).frame;
    enter_loop(opener, device);
    std::vector<PartInput> next;
    for (size_t i = 0; i < variables; ++i) {
      const Output variable = repeat.inputs[i];
      if (device_of(opener) != device || device_of(variable.node) != device)
        throw Error(Errc::invalid_argument, describe(repeat), ": is on ", device, ", its variable ",
                    variable.name(), " on ", device_of(variable.node),
                    "; a loop and its variables stand together, and what the body computes "
                    "elsewhere comes to them");
      next.push_back(value(repeat.inputs[variables + i], device));
    }
    // In the order of the outputs.
    PartLoop& loop = loop_at(opener, device);
    std::vector<PartLoop::Entering> ordered;
    for (size_t i = 0; i < variables; ++i) {
      const int32_t at = values_.at({device, repeat.inputs[i].node, 0}).node;
      ordered.push_back(*std::find_if(loop.variables.begin(), loop.variables.end(),
                                      [&](const auto& v) { return v.node == at; }));
    }
    loop.home = true;
    loop.variables = std::move(ordered);
    loop.next = std::move(next);
    for (int32_t id : repeat.control_inputs) {
      const int32_t before = ran(id, device);
      add_control(driver_at(opener, device), before);
    }
    driver_at(opener, device).node = repeat.id;
    const int32_t at = loop_at(opener, device).driver;
    for (int32_t i = 0; i < static_cast<int32_t>(repeat.outputs.size()); ++i)
      if (!fed_.count(output_of(repeat.id, i))) values_[{device, repeat.id, i}] = {at, i};
    values_[{device, repeat.id, kRan}] = {at, 0};
  }

  // A node in a loop that depends on a node outside makes the whole loop wait, not the node.
  void run_after(PartNode& part, const Node& node, int32_t id, const std::string& device) {
    if (graph_.node(id).op->control == ControlKind::function) return;  // its body runs
    const int32_t loop = loop_of(node), from = loop_of(graph_.node(id));
    if (graph_.node(id).op->control == ControlKind::save &&
        node.op->control == ControlKind::restore)
      return restore_after(part, node, id, device);
    if (id == loop) return;
    if (from == loop) return add_control(part, ran(id, device));
    int32_t outer = loop;
    while (loop_of(graph_.node(outer)) != from) outer = loop_of(graph_.node(outer));
    const int32_t before = ran(id, device);
    add_control(driver_at(outer, device), before);
  }

  void restore_after(PartNode& part, const Node& node, int32_t save, const std::string& device) {
    if (device_of(save) != device)
      throw Error(Errc::invalid_argument, describe(node), ": is on ", device, ", the ",
                  describe(graph_.node(save)), " on ", device_of(save),
                  "; what a loop keeps stays on its device");
    part.save = values_.at({device, save, kRan}).node;
    const std::vector<int32_t> kept = loops_to(loop_of(graph_.node(save))),
                               taken = loops_to(loop_of(node));
    size_t k = 0;
    while (k < kept.size() && k < taken.size() && kept[k] == taken[k]) ++k;
    const int32_t before = k < kept.size() ? loop_at(kept[k], device).driver : part.save;
    if (k < taken.size())
      add_control(driver_at(taken[k], device), before);
    else
      add_control(part, before);
  }

  // On a device other than home, a node that reads nothing made in the iteration waits for home's
  // signal that the iteration begins.
  void tie_to_iteration(PartNode& part, const Node& node, const std::string& device) {
    const int32_t opener = loop_of(node);
    if (opener < 0 || device_of(opener) == device || !part.controls.empty()) return;
    if (part.inputs.empty() && !node.op->stateful) return;  // a constant
    for (const PartInput& input : part.inputs) {
      const PartNode& from = node_at(device, input.node);
      const bool constant =
          from.kind == PartKind::op && from.inputs.empty() && from.controls.empty();
      if (from.kind != PartKind::enter && !constant) return;
    }
    add_control(part, at(device_of(opener), opener, kTick, device).node);
  }

  // Every device that takes part in a loop is told whether it goes on, and acknowledges each
  // iteration.
  void finish_loops() {
    const auto loops = loops_;  // in a fixed order
    for (const auto& [key, number] : loops) {
      const auto& [opener, device] = key;
      const auto decides = deciding_.find(opener);
      if (decides == deciding_.end())
        throw Error(Errc::invalid_argument, "the loop that ", describe(graph_.node(opener)),
                    " opens is read, but it does not run; fetch what it returns, too");
      const int32_t again = ran(decides->second, device);
      loop_at(opener, device).again = again;
    }
    TROUPE_CHECK(loops.size() == loops_.size(), "a device came to a loop late");
    for (const auto& [key, number] : loops) {
      const auto& [opener, device] = key;
      if (device_of(opener) != device) add_ack(opener, device);
    }
    // From inner to outer loops, as the end of an outer iteration waits for the inner loops.
    for (auto it = loops.rbegin(); it != loops.rend(); ++it)
      add_turn(it->first.first, it->first.second);
  }

  void add_ack(int32_t opener, const std::string& device) {
    const std::string& home = device_of(opener);
    Edge edge{.id = edges_++,
              .node = opener,
              .source = device,
              .destination = home,
              .dtype = DType::u8,
              .shape = Shape{0},
              .control = true,
              .loop = opener};
    PartNode send{.kind = PartKind::send, .edge = edge.id};
    send.loop = loops_.at({opener, device});
    acks_[{opener, device}] = append(device, std::move(send));
    PartNode ack{.kind = PartKind::ack, .edge = edge.id};
    ack.loop = loops_.at({opener, home});
    const int32_t at = append(home, std::move(ack));
    loop_at(opener, home).acks.push_back(at);
    partitions_[home].edges.push_back(edge);
    partitions_[device].edges.push_back(std::move(edge));
  }

  // The end of an iteration waits for all nodes that have no reader in it.
  void add_turn(int32_t opener, const std::string& device) {
    const int32_t number = loops_.at({opener, device});
    PartLoop& loop = loop_at(opener, device);
    const std::vector<PartNode>& nodes = partitions_[device].nodes;
    std::vector<bool> read(nodes.size());
    for (const PartNode& node : nodes) {
      if (node.loop != number) continue;
      for (const PartInput& input : node.inputs) read[static_cast<size_t>(input.node)] = true;
      for (int32_t before : node.controls) read[static_cast<size_t>(before)] = true;
    }
    PartNode turn{.kind = PartKind::turn, .node = opener};
    turn.loop = number;
    const auto ack = acks_.find({opener, device});
    for (size_t i = 0; i < nodes.size(); ++i) {
      const bool fires = nodes[i].kind != PartKind::enter && nodes[i].kind != PartKind::ack;
      const bool is_ack = ack != acks_.end() && static_cast<int32_t>(i) == ack->second;
      if (nodes[i].loop == number && fires && !is_ack &&
          (!read[i] || static_cast<int32_t>(i) == loop.again))
        turn.controls.push_back(static_cast<int32_t>(i));
    }
    for (const auto& variable : loop.home ? loop.variables : std::vector<PartLoop::Entering>{})
      turn.inputs.push_back({variable.node, 0});
    for (const PartInput& next : loop.next) turn.inputs.push_back(next);
    if (ack != acks_.end()) {
      node_at(device, ack->second).controls = turn.controls;
      turn.controls = {ack->second};
    }
    loop.turn = append(device, std::move(turn));
  }

  const Graph& graph_;
  const std::map<int32_t, std::string>& device_of_;
  const std::string client_;
  std::map<std::string, Partition> partitions_;
  std::unordered_map<Key, PartInput, KeyHash> values_;  // where each value stands on each device
  std::map<std::pair<int32_t, std::string>, int32_t> loops_;  // opener, device -> number there
  std::map<std::pair<int32_t, std::string>, int32_t> acks_;   // the same key -> its Send of acks
  std::map<int32_t, int32_t>
      deciding_;  // opener -> the branch that is dead after the last iteration
  std::set<Output, OutputOrder> fed_;
  std::vector<PartNode> fetches_;
  std::map<int32_t, std::string> bodies_;              // opener of a function -> its device_of()
  std::map<int32_t, std::vector<PartNode>> returned_;  // the same key -> the results of its calls
  int32_t edges_ = 0;
};

}  // namespace

std::vector<Partition> partition(const Graph& graph, const std::vector<Output>& fetches,
                                 const std::vector<Output>& feeds,
                                 const std::map<int32_t, std::string>& device_of,
                                 const std::string& client_device) {
  const std::vector<int32_t> ids = prune(graph, fetches, feeds);
  const std::set<int32_t> needed(ids.begin(), ids.end());
  Cutter cutter(graph, device_of, client_device);
  for (const Output& output : feeds) cutter.feed(output);
  for (int32_t id : ids) cutter.run(graph.node(id), needed);
  for (const Output& output : fetches) cutter.fetch(output);
  return cutter.finish();
}

}  // namespace troupe

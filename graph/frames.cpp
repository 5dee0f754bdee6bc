// Frames of a graph: the frame of each node, and the values that cross their borders. A value
// enters through a Capture node in each frame on its way; it leaves only through a merge or a loop.
#include <algorithm>
#include <map>
#include <deque>
#include <tuple>

#include "graph/made_nodes.hpp"
#include "graph/op.hpp"
#include "graph/frames.hpp"
#include "troupe/op.hpp"

namespace troupe {
namespace {

template <class... Parts>
Error bad_node(const Node& node, const Parts&... parts) {
  return Error(Errc::invalid_argument, describe(node), ": ", detail::concat(parts...));
}

// The limit of nested frames: a value that the innermost one reads from outside is captured in
// each.
constexpr int kDepthMax = 256;

bool opens_frame(const Node& node) {
  const ControlKind kind = node.op->control;
  return kind == ControlKind::branch || kind == ControlKind::loop || kind == ControlKind::function;
}

// A restore takes the values of its save, and kernels trust its type.
void check_restore(const Graph& graph, const Node& node) {
  const Node* save = nullptr;
  for (int32_t id : node.control_inputs) {
    const Node& before = graph.node(id);
    if (before.op->control != ControlKind::save) continue;
    if (save)
      throw bad_node(node, "runs after the ", describe(*save), " and the ", describe(before),
                     "; it takes what one of them has kept, so name that one");
    save = &before;
  }
  if (!save)
    throw bad_node(node,
                   "runs after no Save, whose values it could take; name one as a control "
                   "input");
  const TensorType kept{save->inputs[0].dtype(), save->inputs[0].shape()};
  if (!(node.outputs[0] == kept))
    throw bad_node(node, "is ", node.outputs[0], ", but the ", describe(*save), " keeps ", kept);
}

// Throws: Error(invalid_argument) for a value that cannot be read in `frame`.
void check_reach(const Graph& graph, const Output& value, int32_t frame, const Node& reader) {
  const int32_t from = graph.node(value.node).frame;
  if (encloses(graph, from, frame) || graph.state().scopes.back().elsewhere) return;
  throw bad_node(reader, "reads the ", describe(graph.node(value.node)), ", which is inside the ",
                 describe(graph.node(from)),
                 "; return it from the branch or the body, and read what the cond, the loop or the "
                 "call returns");
}

// `value` as nodes of `frame` read it.
Output enter(Graph& graph, Output value, int32_t frame, const Node& reader, Origin at) {
  std::deque<OpenScope>& scopes = graph.state().scopes;
  const int32_t from = graph.node(value.node).frame;
  if (from == frame) return value;
  check_reach(graph, value, frame, reader);
  if (!encloses(graph, from, frame)) {
    const FrameRoute route = scopes.back().elsewhere;
    return enter(graph, route(value), frame, reader, at);
  }
  value = enter(graph, value, graph.node(frame).frame, reader, at);
  const OpenScope& scope = scopes.back();
  const std::tuple key(frame, value.node, value.index,
                       to_string(scope.device) + " " + scope.colocate_with);
  const auto captured = scope.captured;
  if (captured)
    if (const auto known = captured->find(key); known != captured->end()) return known->second;
  OpenScope inner = scope;
  inner.frame = frame;
  inner.control_inputs.clear();
  scopes.push_back(std::move(inner));
  const Graph::Scope closes(graph.state());
  const Output inside = graph.add(capture_node(value), at);
  if (captured) captured->emplace(key, inside);
  return inside;
}

}  // namespace

bool encloses(const Graph& graph, int32_t outer, int32_t inner) {
  while (inner >= 0 && inner != outer) inner = graph.node(inner).frame;
  return inner == outer || outer < 0;
}

int32_t current_frame(const Graph& graph) { return graph.state().scopes.back().frame; }

Graph::Scope open_frame(Graph& graph, int32_t opener, FrameRoute elsewhere, Origin at) {
  const std::string called =
      *at.file ? detail::concat("open_frame() called at ", at.file, ":", at.line, ": ") : "";
  if (opener >= 0 && !opens_frame(graph.node(opener)))
    throw Error(Errc::invalid_argument, called, "the ", describe(graph.node(opener)),
                " opens no frame; name a branch, a loop or a function");
  int depth = 0;
  for (int32_t around = opener; around >= 0; around = graph.node(around).frame) ++depth;
  if (depth > kDepthMax)
    throw Error(Errc::invalid_argument, called, "the ", describe(graph.node(opener)), " is inside ",
                depth - 1, " branches and loops, and the most is ", kDepthMax - 1,
                "; write a loop instead of nesting them");
  std::deque<OpenScope>& scopes = graph.state().scopes;
  OpenScope inner = scopes.back();
  // Nodes that must run before all nodes of the scope run before the opener of a frame in it.
  if (opener >= 0 && opener != inner.frame) inner.control_inputs.clear();
  std::erase_if(inner.control_inputs,
                [&](int32_t id) { return !encloses(graph, graph.node(id).frame, opener); });
  inner.frame = opener;
  if (elsewhere) inner.elsewhere = std::move(elsewhere);
  if (!inner.captured) inner.captured = std::make_shared<OpenScope::Captured>();
  scopes.push_back(std::move(inner));
  return Graph::Scope(graph.state());
}

Output captured(Graph& graph, Output value, Origin at) {
  if (!value.defined() || value.graph != &graph) return value;  // its reader will refuse it
  Node reader;
  reader.name = "captured()";
  reader.file = at.file;
  reader.line = at.line;
  return enter(graph, value, current_frame(graph), reader, at);
}

void enter_frame(Graph& graph, Node& node, Origin at) {
  const ControlKind kind = node.op->control;
  const auto frame_of = [&](const Output& value) { return graph.node(value.node).frame; };
  const auto inside = [&](int32_t id) { return id >= 0 && graph.node(id).frame == node.frame; };
  const bool enters = kind == ControlKind::capture || kind == ControlKind::variable;
  if (enters && node.frame < 0)
    throw bad_node(node, "is in no frame; open one, where it brings its input to");
  const int32_t reads = enters ? graph.node(node.frame).frame : node.frame;
  const size_t variables = node.inputs.size() / 2;
  // Inputs that leave a frame here; all others are read inside the node's own.
  const auto leaves = [&](size_t i) {
    const int32_t from = frame_of(node.inputs[i]);
    if (kind == ControlKind::merge) return inside(from);
    if (kind != ControlKind::repeat) return false;
    const bool next = i >= variables;
    if (from >= 0 && (next ? inside(graph.node(from).frame) : inside(from))) return true;
    throw bad_node(
        node, "its input ", i, ", the ", describe(graph.node(node.inputs[i].node)),
        next ? ", is no value of a branch of its loop" : ", is no variable of a loop beside it");
  };
  for (size_t i = 0; i < node.inputs.size(); ++i)  // checks all before anything is captured
    if (!leaves(i)) check_reach(graph, node.inputs[i], reads, node);
  const bool free = kind == ControlKind::restore;  // it runs after a save of another frame
  if (free) check_restore(graph, node);
  for (int32_t id : node.control_inputs)
    if (!free && !encloses(graph, graph.node(id).frame, node.frame))
      throw bad_node(node, "is to run after the ", describe(graph.node(id)),
                     ", which is inside the ", describe(graph.node(graph.node(id).frame)),
                     "; return something that runs after it from there");
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (!leaves(i)) node.inputs[i] = enter(graph, node.inputs[i], reads, node, at);
  if (node.frame < 0 || (!node.inputs.empty() && !enters)) return;
  if (std::find(node.control_inputs.begin(), node.control_inputs.end(), node.frame) ==
      node.control_inputs.end())
    node.control_inputs.push_back(node.frame);
}

}  // namespace troupe

// Graph::add and scopes: all mistakes of a caller are found here, before anything runs, and the
// message says what would be right. A node that fails a check leaves the graph unchanged.
#include "troupe/graph.hpp"

#include <algorithm>
#include <charconv>
#include <ostream>
#include <unordered_set>

#include "graph/attr_text.hpp"
#include "graph/base/words.hpp"
#include "graph/op_properties.hpp"
#include "graph/frames.hpp"
#include "troupe/op.hpp"

namespace troupe {

namespace {

constexpr std::string_view kReplica = "replica";

// Names appear in texts, "a:1" and paths, so they are kept simple.
bool is_good_name(std::string_view name) {
  return !name.empty() && name.front() != '/' && name.front() != '-' && name.back() != '/' &&
         std::all_of(name.begin(), name.end(), is_name_character);
}

template <class... Parts>
Error bad_node(const Node& node, const Parts&... parts) {
  return Error(Errc::invalid_argument, describe(node), ": ", detail::concat(parts...));
}

std::string bad_name(std::string_view name, const std::string& what) {
  return detail::concat(
      what, " cannot be called \"", name,
      "\"; a name is letters, digits and . _ - /, and begins with a letter, a digit, . or _");
}

// The prefix of a message about a caller's mistake; empty if the line is unknown.
std::string called(const char* what, Origin at) {
  return *at.file ? detail::concat(what, "() called at ", at.file, ":", at.line, ": ") : "";
}

template <class ByName>
std::string no_node(std::string_view name, const ByName& by_name) {
  std::vector<std::string_view> names;
  for (const auto& [known, id] : by_name) names.push_back(known);
  const std::string nearest = did_you_mean(name, names);
  return detail::concat(
      "the graph has no node \"", name, "\"",
      nearest.empty() ? "; to_text() and troupe graph show those there are" : nearest);
}

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

const char* kind_name(size_t attr_index) {
  static constexpr const char* names[] = {
      "a bool",  "an integer", "a number",           "a text",
      "a dtype", "a shape",    "a list of integers", "a tensor"};
  return names[attr_index];
}

std::string input_name(const Node& node, size_t i) {
  const auto& names = node.op->inputs;
  const std::string& name = names[std::min(i, names.size() - 1)];
  return detail::concat("input ", i, " (", name, ")");
}

void check_input_count(const Node& node) {
  const auto& names = node.op->inputs;
  const size_t got = node.inputs.size();
  const bool variadic = !names.empty() && names.back().ends_with("...");
  const bool optional = !names.empty() && names.back().ends_with("...?");  // none or more
  const size_t least = names.size() - (optional ? 1 : 0);
  if (variadic || optional ? got >= least : got == least) return;
  const std::string wanted =
      names.empty() ? "no inputs"
                    : detail::concat(variadic || optional ? "at least " : "", least,
                                     least == 1 ? " input (" : " inputs (", list_of(names), ")");
  throw bad_node(node, "wants ", wanted, ", got ", got);
}

void check_inputs(const Graph& graph, const Node& node) {
  check_input_count(node);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Output& input = node.inputs[i];
    if (!input.defined())
      throw bad_node(node, input_name(node, i),
                     " is an undefined Output; pass the result of an op");
    if (input.graph != &graph)
      throw bad_node(node, input_name(node, i),
                     " comes from another graph; build both nodes in one Graph");
    if (input.node < 0 || input.node >= static_cast<int32_t>(graph.nodes().size()))
      throw bad_node(node, input_name(node, i), " names node number ", input.node,
                     ", but the graph has ", graph.nodes().size(), " nodes");
    const Node& from = graph.node(input.node);
    const int32_t count = static_cast<int32_t>(from.outputs.size());
    if (count == 0)
      throw bad_node(node, input_name(node, i), " is the ", describe(from),
                     ", which has no outputs; name it as a control input to run after it");
    if (input.index < 0 || input.index >= count)
      throw bad_node(node, input_name(node, i), " is output ", input.index, " of the ",
                     describe(from), ", which has ", count, count == 1 ? " output" : " outputs");
  }
  for (int32_t id : node.control_inputs)
    if (id < 0 || id >= static_cast<int32_t>(graph.nodes().size()))
      throw bad_node(node, "names node number ", id, " as a control input, but the graph has ",
                     graph.nodes().size(), " nodes");
}

void check_attr(const Node& node, const AttrSpec& spec, Attr& value) {
  // An integer is accepted as a real number: Attrs{{"value", 1}}.
  if (spec.kind == AttrKind::real && std::holds_alternative<int64_t>(value))
    value = static_cast<double>(std::get<int64_t>(value));
  if (value.index() != static_cast<size_t>(spec.kind))
    throw bad_node(node, "attribute ", spec.name, " wants ",
                   kind_name(static_cast<size_t>(spec.kind)), ", got ", kind_name(value.index()),
                   " (", to_string(value), ")");
  if (spec.kind == AttrKind::tensor && !std::get<Tensor>(value).defined())
    throw bad_node(node, "attribute ", spec.name, " is an undefined tensor; give it a value");
  if (spec.kind == AttrKind::tensor && !std::get<Tensor>(value).on_host())
    throw bad_node(node, "attribute ", spec.name, " is a tensor on a device; pass a host tensor");
  if (spec.kind == AttrKind::dtype && std::get<DType>(value) == DType::none)
    throw bad_node(node, "attribute ", spec.name,
                   " is no dtype; there are f32, f64, i32, i64, u8, bool, i8, f16 and bf16");
}

// The attribute that names the node's replica.
bool is_replica(const AttrSpec& spec) {
  return spec.name == kReplica && spec.kind == AttrKind::integer;
}

// Checks against the schema; a missing attribute gets its default, "replica" that of the node.
void check_attrs(Node& node) {
  const auto& specs = node.op->attrs;
  for (const auto& given : node.attrs) {
    const std::string& name = given.first;
    if (std::any_of(specs.begin(), specs.end(), [&](const AttrSpec& s) { return s.name == name; }))
      continue;
    std::vector<std::string> known;
    for (const AttrSpec& spec : specs) known.push_back(spec.name);
    if (known.empty()) throw bad_node(node, "has no attribute \"", name, "\"; it has none at all");
    throw bad_node(node, "has no attribute \"", name, "\"; it has ", list_of(known),
                   did_you_mean(name, known));
  }
  for (const AttrSpec& spec : specs) {
    auto it = node.attrs.find(spec.name);
    if (it == node.attrs.end() && is_replica(spec))
      it = node.attrs.emplace(spec.name, node.replica).first;
    else if (it == node.attrs.end() && spec.default_value)
      it = node.attrs.emplace(spec.name, *spec.default_value).first;
    else if (it == node.attrs.end())
      throw bad_node(node, "needs attribute ", spec.name, ", ",
                     kind_name(static_cast<size_t>(spec.kind)));
    check_attr(node, spec, it->second);
    if (is_replica(spec)) node.replica = std::get<int64_t>(it->second);
  }
}

// The dtype of all inputs: the rule of an op that has none of its own.
DType common_dtype(const InferContext& ctx) {
  for (int i = 1; i < ctx.input_count(); ++i)
    if (ctx.dtype(i) != ctx.dtype(0))
      throw ctx.error("inputs must have one dtype, got ", ctx.dtype(0), " and ", ctx.dtype(i),
                      "; cast one of them");
  return ctx.dtype(0);
}

// The result of `rule`. A shape with a bad or too large size does not know its node, so its message
// is completed with this node.
template <class Rule>
auto of_node(const InferContext& ctx, const Rule& rule) {
  try {
    return rule();
  } catch (const Error& e) {
    const std::string text = e.what();
    if (e.code() != Errc::invalid_argument || text.starts_with(describe(ctx.node()))) throw;
    throw ctx.error(text);
  }
}

// An op's rules must give the number of results that its schema lists.
void check_rules(const InferContext& ctx, const std::vector<DType>& dtypes, size_t shapes) {
  const Op& op = *ctx.node().op;
  const std::vector<std::string>& names = op.outputs;
  const bool none_or_more = !names.empty() && names.back().ends_with("...?");
  const bool variadic = none_or_more || (!names.empty() && names.back().ends_with("..."));
  const size_t least = names.size() - (none_or_more ? 1 : 0);
  if (shapes < least || (shapes > least && !variadic))
    throw ctx.error("infer_shapes of ", op.name, " gave ", shapes, " shapes, but the op lists ",
                    variadic ? "at least " : "", least, " outputs; it must give one for each");
  if (dtypes.size() != shapes)
    throw ctx.error("infer_dtypes of ", op.name, " gave ", dtypes.size(),
                    " dtypes, and infer_shapes ", shapes, " shapes; both give one for each output");
  for (size_t i = 0; i < shapes; ++i)
    if (dtypes[i] == DType::none)
      throw ctx.error("infer_dtypes of ", op.name, " gave no dtype for output ", i);
}

void infer_outputs(Node& node) {
  std::vector<TensorType> types;
  for (const Output& input : node.inputs) types.push_back({input.dtype(), input.shape()});
  const InferContext ctx(node, std::move(types));
  const Op& op = *node.op;
  std::vector<DType> dtypes;
  if (op.infer_dtypes) dtypes = op.infer_dtypes(ctx);
  const DType common = op.infer_dtypes || ctx.input_count() == 0 ? DType::none : common_dtype(ctx);
  const std::vector<Shape> shapes =
      of_node(ctx, [&] { return op.infer_shapes ? op.infer_shapes(ctx) : std::vector<Shape>(); });
  if (!op.infer_dtypes) dtypes.assign(shapes.size(), common);
  check_rules(ctx, dtypes, shapes.size());
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (shapes[i].is_known()) of_node(ctx, [&] { return shapes[i].size(); });
    node.outputs.push_back({dtypes[i], shapes[i]});
  }
}

void append_once(std::vector<int32_t>& list, const std::vector<int32_t>& more) {
  if (more.empty()) return;
  if (list.size() + more.size() <= 16) {
    for (int32_t id : more)
      if (std::find(list.begin(), list.end(), id) == list.end()) list.push_back(id);
    return;
  }
  std::unordered_set<int32_t> there(list.begin(), list.end());
  for (int32_t id : more)
    if (there.insert(id).second) list.push_back(id);
}

std::string unique_name(GraphState& state, std::string_view wanted) {
  std::string name(wanted);
  if (!state.by_name.count(name)) return name;
  int64_t& taken = state.next_suffix[name];  // a lower bound: the node may still fail its checks
  int64_t suffix = taken;
  do {
    name = detail::concat(wanted, "_", ++suffix);
  } while (state.by_name.count(name));
  taken = suffix - 1;
  return name;
}

}  // namespace

std::string to_string(const Attr& attr) {
  const auto* tensor = std::get_if<Tensor>(&attr);  // printed with its first elements only
  return tensor ? detail::concat(*tensor) : exact_text(attr);
}

std::ostream& operator<<(std::ostream& out, const TensorType& type) {
  return out << type.dtype << type.shape;
}

std::optional<int64_t> own_replica(const Node& node) {
  const auto it = node.attrs.find(kReplica);
  const auto* replica = it == node.attrs.end() ? nullptr : std::get_if<int64_t>(&it->second);
  return replica ? std::optional(*replica) : std::nullopt;
}

std::string describe(const Node& node) {
  std::string text = detail::concat(node.op ? node.op->name + " node " : "node ", node.name);
  if (!node.file.empty()) text += detail::concat(" made at ", node.file, ":", node.line);
  return text;
}

namespace {

const TensorType& type_of(const Output& output) {
  TROUPE_CHECK(output.defined(), "an undefined Output has no type");
  const Node& node = output.graph->node(output.node);
  const auto i = static_cast<size_t>(output.index);
  if (output.index >= 0 && i < node.outputs.size()) return node.outputs[i];
  throw Error(Errc::invalid_argument, describe(node), " has no output ", output.index,
              node.outputs.empty() ? std::string("; it has none: name it as a control input")
                                   : detail::concat("; it has ", node.outputs.size()));
}

}  // namespace

DType Output::dtype() const { return type_of(*this).dtype; }
const Shape& Output::shape() const { return type_of(*this).shape; }

const std::string& Output::name() const {
  TROUPE_CHECK(defined(), "an undefined Output has no name");
  return graph->node(node).name;
}

bool same_outputs(const std::vector<Output>& a, const std::vector<Output>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Output& x, const Output& y) { return x.is(y); });
}

bool OutputOrder::operator()(const std::vector<Output>& a, const std::vector<Output>& b) const {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), *this);
}

Graph::Graph(std::shared_ptr<const Registry> registry)
    : registry_(std::move(registry)),
      state_(std::make_unique<GraphState>()),
      nodes_(state_->nodes) {
  TROUPE_CHECK(registry_, "a graph needs a registry");
}
Graph::~Graph() = default;

void Graph::refuse_node(int32_t id) const {
  throw Error(Errc::invalid_argument, "the graph has no node number ", id, "; it has ",
              nodes_.size(), " nodes, counted from 0");
}

Output Graph::add(NodeSpec spec, Origin at) {
  const OpenScope& scope = state_->scopes.back();
  auto node = std::make_unique<Node>();
  node->frame = scope.frame;
  node->recompute = scope.recompute;
  node->file = scope.has_origin ? scope.file : at.file;
  node->line = scope.has_origin ? scope.line : at.line;
  node->name = scope.prefix + std::string(spec.name.empty() ? spec.op : spec.name);
  try {
    node->op = &registry_->get(spec.op);
  } catch (const Error& e) {  // the registry does not know the origin of the node
    throw bad_node(*node, e.what());
  }
  if (!spec.name.empty() && !is_good_name(spec.name))
    throw Error(Errc::invalid_argument, bad_name(spec.name, "the " + describe(*node)));
  if (scope.compute != DType::none) cast_inputs(*this, *node->op, spec.inputs, at);
  node->name = unique_name(*state_, node->name);
  node->inputs = std::move(spec.inputs);
  node->attrs = std::move(spec.attrs);
  node->control_inputs = scope.control_inputs;
  append_once(node->control_inputs, spec.control_inputs);
  node->device = to_string(scope.device);
  node->replica = scope.replica;
  node->colocate_with = scope.colocate_with;
  check_inputs(*this, *node);
  check_attrs(*node);
  infer_outputs(*node);
  enter_frame(*this, *node, at);

  node->id = static_cast<int32_t>(nodes_.size());
  state_->by_name.emplace(node->name, node->id);
  auto& again = state_->recompute_scopes;
  for (int32_t s = node->recompute; s >= 0; s = again[static_cast<size_t>(s)].parent)
    again[static_cast<size_t>(s)].nodes.push_back(node->id);
  state_->nodes.push_back(std::move(node));
  return {this, nodes_.back()->id, 0};
}

const Node* Graph::find(std::string_view name) const {
  const auto it = state_->by_name.find(name);
  return it == state_->by_name.end() ? nullptr : nodes_[static_cast<size_t>(it->second)].get();
}

Output Graph::output(std::string_view name_and_index, Origin at) const {
  const size_t colon = name_and_index.rfind(':');
  const std::string_view name = name_and_index.substr(0, colon);
  int32_t index = 0;
  if (colon != name_and_index.npos) {
    const std::string_view digits = name_and_index.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error != std::errc() || end != digits.data() + digits.size())
      throw Error(Errc::invalid_argument, called("output", at), "\"", name_and_index,
                  "\" is no output; write a node's name, or name:index");
  }
  const Node* node = find(name);
  if (!node)
    throw Error(Errc::invalid_argument, called("output", at), no_node(name, state_->by_name));
  // Index 0 names a node without outputs.
  const int32_t count = static_cast<int32_t>(std::max<size_t>(1, node->outputs.size()));
  if (index < 0 || index >= count)
    throw Error(Errc::invalid_argument, called("output", at), "the ", describe(*node),
                " has no output ", index, "; it has ", node->outputs.size());
  return {const_cast<Graph*>(this), node->id, index};
}

Graph::Scope Graph::scope(ScopeSpec spec, Origin at) {
  const auto refuse = [&](const auto&... parts) {
    return Error(Errc::invalid_argument, called("scope", at), detail::concat(parts...));
  };
  OpenScope inner = state_->scopes.back();
  if (!spec.name.empty()) {
    if (!is_good_name(spec.name)) throw refuse(bad_name(spec.name, "a scope"));
    inner.prefix += spec.name + "/";
  }
  if (spec.device) {
    try {
      const DeviceName wish = parse_device_name(*spec.device);
      inner.device = spec.device->empty() ? wish : merge(wish, inner.device);
    } catch (const Error& e) {  // the parser does not know the origin of the scope
      throw refuse(e.what());
    }
  }
  if (spec.replica) {
    if (*spec.replica < 0) throw refuse("a replica is a number from 0, got ", *spec.replica);
    inner.replica = *spec.replica;
  }
  if (spec.colocate_with) {
    if (!spec.colocate_with->empty() && !find(*spec.colocate_with))
      throw refuse(no_node(*spec.colocate_with, state_->by_name));
    inner.colocate_with = *spec.colocate_with;
  }
  for (int32_t id : spec.control_inputs)
    if (id < 0 || id >= static_cast<int32_t>(nodes_.size()))
      throw refuse("node number ", id, " is named as a control input, but the graph has ",
                   nodes_.size(), " nodes");
  append_once(inner.control_inputs, spec.control_inputs);
  if (spec.origin) {
    inner.has_origin = true;
    inner.file = spec.origin->file;
    inner.line = spec.origin->line;
  }
  if (spec.recompute) inner.recompute = -1;
  if (spec.recompute.value_or(false)) {
    const std::string& prefix = inner.prefix;
    inner.recompute = static_cast<int32_t>(state_->recompute_scopes.size());
    state_->recompute_scopes.push_back(
        {.name = prefix.substr(0, prefix.empty() ? 0 : prefix.size() - 1),
         .parent = state_->scopes.back().recompute,
         .frame = inner.frame});
  }
  if (spec.compute) {
    if (*spec.compute != DType::none && *spec.compute != DType::f32 && !is_half(*spec.compute))
      throw refuse("products are computed in bf16, f16 or f32, got ", *spec.compute);
    inner.compute = is_half(*spec.compute) ? *spec.compute : DType::none;
  }
  state_->scopes.push_back(std::move(inner));
  return Scope(*state_);
}

Graph::Scope::~Scope() {
  if (state_) state_->scopes.pop_back();
}

int64_t Graph::replica() const { return state_->scopes.back().replica; }

std::string Graph::device() const { return to_string(state_->scopes.back().device); }

std::unique_ptr<Graph> copy_of(const Graph& graph, const std::vector<int32_t>& ids) {
  auto out = std::make_unique<Graph>(graph.shared_registry());
  GraphState& made = out->state();
  std::vector<int32_t> number(graph.nodes().size(), -1);
  const auto moved = [&](int32_t id) {
    const int32_t to = number[static_cast<size_t>(id)];
    TROUPE_CHECK(to >= 0, "the ", describe(graph.node(id)), " is read, but not copied");
    return to;
  };
  for (int32_t id : ids) {
    auto node = std::make_unique<Node>(graph.node(id));
    node->id = static_cast<int32_t>(made.nodes.size());
    for (Output& input : node->inputs) input = {out.get(), moved(input.node), input.index};
    for (int32_t& before : node->control_inputs) before = moved(before);
    if (node->frame >= 0) node->frame = moved(node->frame);
    node->recompute = -1;
    number[static_cast<size_t>(id)] = node->id;
    made.nodes.push_back(std::move(node));
  }
  for (const auto& [name, id] : graph.state().by_name)
    if (const int32_t to = number[static_cast<size_t>(id)]; to >= 0)
      made.by_name.emplace_hint(made.by_name.end(), name, to);
  return out;
}

void set_backward(Graph& graph, int32_t node, Backward backward) {
  TROUPE_CHECK(node >= 0 && node < static_cast<int32_t>(graph.nodes().size()) &&
                   graph.node(node).outputs.size() == 1,
               "node number ", node, " cannot have a backward function");
  for (const Output& input : backward.inputs)  // gradients() visits nodes in falling order of ids
    TROUPE_CHECK(input.graph == &graph && input.node < node,
                 "a backward function reaches back to earlier nodes only");
  graph.state().backwards[node] = std::move(backward);
}

const Backward* backward_of(const Graph& graph, int32_t node) {
  const auto it = graph.state().backwards.find(node);
  return it == graph.state().backwards.end() ? nullptr : &it->second;
}

int32_t original_of(const Graph& graph, int32_t node) {
  const auto it = graph.state().originals.find(node);
  return it == graph.state().originals.end() ? node : it->second;
}

void set_original(Graph& graph, int32_t copy, int32_t original) {
  TROUPE_CHECK(original < copy && graph.node(copy).outputs == graph.node(original).outputs, "the ",
               describe(graph.node(copy)), " computes something else than the ",
               describe(graph.node(original)));
  graph.state().originals[copy] = original;
}

}  // namespace troupe

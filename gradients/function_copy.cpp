// The first part of gradients/function_parts.hpp: the body of a function, and copies of it.
#include <algorithm>
#include <map>
#include <memory>

#include "gradients/function_parts.hpp"
#include "graph/frames.hpp"
#include "graph/op.hpp"
#include "ops/state/parameter_write.hpp"
#include "ops/random/random.hpp"
#include "ops/elementwise/type_list.hpp"

namespace troupe {

int32_t function_around(const Graph& graph, int32_t frame) {
  while (frame >= 0 && graph.node(frame).op->control != ControlKind::function)
    frame = graph.node(frame).frame;
  return frame;
}

bool is_pattern(const Node& opener) {
  return opener.attr<std::string>("of").empty() && opener.attr<std::string>("gradient_of").empty();
}

const Node* opener_called(const Graph& graph, const std::string& name) {
  const Node* node = graph.find(name);
  return node && node->op->control == ControlKind::function ? node : nullptr;
}

std::vector<TensorType> types_in(const Node& opener, const char* attribute) {
  return *types_of(opener.attr<std::string>(attribute));  // checked when the node was made
}

const Node* return_of(const Graph& graph, int32_t opener) {
  const auto& nodes = graph.nodes();
  for (size_t id = static_cast<size_t>(opener) + 1; id < nodes.size(); ++id)
    if (nodes[id]->frame == opener && nodes[id]->op->control == ControlKind::result)
      return nodes[id].get();
  return nullptr;
}

std::vector<int32_t> body_of(const Graph& graph, int32_t opener) {
  std::vector<int32_t> ids;
  const Node* result = return_of(graph, opener);
  const int32_t end = result ? result->id : static_cast<int32_t>(graph.nodes().size());
  for (int32_t id = opener + 1; id < end; ++id)
    if (function_around(graph, graph.node(id).frame) == opener) ids.push_back(id);
  return ids;
}

std::string last_part(const std::string& name) { return name.substr(name.rfind('/') + 1); }

bool takes_path(const Node& node) {
  return !node.op->inputs.empty() && node.op->inputs.back() == kPathInput;
}

namespace {

using Values = std::map<Output, Output, OutputOrder>;

// A backward function of the program reads values of the pattern. In a copy, the copied values
// stand for them; in a copy of a copy, the values of that copy.
struct BackwardOfCopy {
  Graph* graph;
  std::string function;
  std::function<std::vector<Output>(Output)> build;
  std::vector<std::shared_ptr<const Values>> copies;

  std::vector<Output> operator()(Output output_gradient) const {
    const auto route = open_frame(*graph, current_frame(*graph), [this](Output value) {
      bool found = false;
      for (const auto& copy : copies)
        if (const auto known = copy->find(value); known != copy->end()) {
          value = known->second;
          found = true;
        }
      if (found) return value;
      throw Error(Errc::invalid_argument, "a backward function in the body of ", function,
                  " reads ", value.name(),
                  ", which is not of that body; read values of the body, or of what is around it");
    });
    return build(output_gradient);
  }
};

class BodyCopy {
 public:
  BodyCopy(Graph& graph, const Node& opener, const std::vector<Output>& arguments,
           const CopyRules& rules)
      : graph_(graph),
        opener_(opener),
        arguments_(arguments),
        rules_(rules),
        frame_(current_frame(graph)) {}

  std::vector<Output> run() {
    const Node* result = return_of(graph_, opener_.id);
    TROUPE_CHECK(result, "the ", describe(opener_), " has no body to copy");
    for (int32_t id : body_of(graph_, opener_.id)) copy(graph_.node(id));
    std::vector<Output> results;
    for (const Output& value : result->inputs) results.push_back(resolve(value));
    return results;
  }

 private:
  Output resolve(const Output& value) const {
    const auto known = values_->find(value);
    return known != values_->end() ? known->second : rules_.outside(value);
  }

  void stands_for(const Node& node, const std::vector<Output>& outputs) {
    nodes_[node.id] = outputs[0].node;
    for (size_t i = 0; i < outputs.size(); ++i)
      (*values_)[{&graph_, node.id, static_cast<int32_t>(i)}] = outputs[i];
  }

  void copy(const Node& node) {
    const ControlKind kind = node.op->control;
    if (kind == ControlKind::function) return;
    if (kind == ControlKind::argument)
      return stands_for(node, {arguments_.at(static_cast<size_t>(node.attr<int64_t>("index")))});
    if (kind == ControlKind::capture && node.frame == opener_.id)
      return stands_for(node, {resolve(node.inputs[0])});
    const auto like = graph_.scope(scope_of(node));
    const auto frame =
        open_frame(graph_, node.frame == opener_.id ? frame_ : nodes_.at(node.frame));
    std::vector<Output> inputs;
    for (const Output& input : node.inputs) inputs.push_back(resolve(input));
    if (kind == ControlKind::call && rules_.call) {
      const auto results =
          rules_.call(node, inputs, [this](Output value) { return resolve(value); });
      return stands_for(node, results);
    }
    if (takes_path(node) && is_pattern(opener_)) {
      const std::vector<Output>& around = path_around();
      const auto before = static_cast<ptrdiff_t>(inputs_before_path(node));
      inputs.insert(inputs.begin() + before, around.begin(), around.end());
    }
    const int32_t id = add(node, std::move(inputs));
    nodes_[node.id] = id;
    for (int32_t i = 0; i < static_cast<int32_t>(node.outputs.size()); ++i)
      (*values_)[{&graph_, node.id, i}] = {&graph_, id, i};
    if (const Backward* backward = backward_of(graph_, node.id)) go_back_alike(id, *backward);
  }

  const std::vector<Output>& path_around() {
    if (path_around_) return *path_around_;
    const auto frame = open_frame(graph_, frame_);
    return path_around_.emplace(iteration_path(graph_));
  }

  // Fields that the node set itself come from the node; fields from the scope of the function's
  // definition come from the caller's scope.
  Graph::ScopeSpec scope_of(const Node& node) const {
    Graph::ScopeSpec spec;
    spec.origin = Origin{node.file.c_str(), node.line};
    if (rules_.one_device) return spec;
    if (node.device != opener_.device) spec.device = node.device;
    if (node.replica != opener_.replica) spec.replica = node.replica;
    if (node.colocate_with == opener_.colocate_with) return spec;
    const Node* partner = graph_.find(node.colocate_with);
    const auto copied = partner ? nodes_.find(partner->id) : nodes_.end();
    spec.colocate_with =
        copied == nodes_.end() ? node.colocate_with : graph_.node(copied->second).name;
    return spec;
  }

  int32_t add(const Node& node, std::vector<Output> inputs) {
    Attrs attrs = node.attrs;
    if (const auto found = attrs.find("replica"); found != attrs.end())
      if (const auto* replica = std::get_if<int64_t>(&found->second);
          replica && *replica == opener_.replica)
        attrs.erase(found);  // use that of the open scope
    std::vector<int32_t> after;
    for (int32_t id : node.control_inputs) {
      if (id == opener_.id) continue;
      const auto copied = nodes_.find(id);
      after.push_back(copied == nodes_.end() ? id : copied->second);
    }
    if (writes_values(node)) {  // each copy is a separate write
      const auto replica = attrs.find("replica");
      attrs["number"] = place_write(
          graph_, node.op->name, node.attr<std::string>("parameter"),
          replica == attrs.end() ? graph_.replica() : std::get<int64_t>(replica->second), after,
          {node.file.c_str(), node.line});
    }
    if (takes_path(node)) attrs["key"] = key_of(node);
    if (node.op->control == ControlKind::restore)  // the copy may know more sizes
      for (int32_t id : after)
        if (const Node& save = graph_.node(id); save.op->control == ControlKind::save)
          attrs["shape"] = save.inputs[0].shape();
    const std::string prefix = opener_.name + "/";
    const std::string name =
        node.name.starts_with(prefix) ? node.name.substr(prefix.size()) : last_part(node.name);
    return graph_
        .add({.op = node.op->name,
              .inputs = std::move(inputs),
              .attrs = std::move(attrs),
              .name = name,
              .control_inputs = std::move(after)})
        .node;
  }

  // The random key of the copy. A node that drew with the key of another node of the body, for a
  // gradient, draws with the key of that node's copy.
  std::string key_of(const Node& node) const {
    const std::string& key = random_key(node);
    if (rules_.same_draws) return key;
    const Node* drew = graph_.find(key);
    const auto copied = drew ? nodes_.find(drew->id) : nodes_.end();
    return copied == nodes_.end() ? node.attr<std::string>("key")
                                  : random_key(graph_.node(copied->second));
  }

  void go_back_alike(int32_t id, const Backward& backward) {
    Backward alike;
    for (const Output& input : backward.inputs) alike.inputs.push_back(resolve(input));
    const auto* copied = backward.build.target<BackwardOfCopy>();
    BackwardOfCopy build =
        copied ? *copied : BackwardOfCopy{&graph_, opener_.name, backward.build, {}};
    build.copies.push_back(values_);
    alike.build = std::move(build);
    set_backward(graph_, id, std::move(alike));
  }

  Graph& graph_;
  const Node& opener_;
  const std::vector<Output>& arguments_;
  const CopyRules& rules_;
  const int32_t frame_;
  const std::shared_ptr<Values> values_ = std::make_shared<Values>();
  std::map<int32_t, int32_t> nodes_;
  std::optional<std::vector<Output>> path_around_;  // of the whole copy
};

}  // namespace

std::vector<Output> copy_body(Graph& graph, int32_t opener, const std::vector<Output>& arguments,
                              const CopyRules& rules) {
  return BodyCopy(graph, graph.node(opener), arguments, rules).run();
}

}  // namespace troupe

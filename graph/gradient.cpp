// gradients: the pass that adds the backward half of a graph (reverse-mode accumulation; Griewank
// and Walther, Evaluating Derivatives, 2008, chapter 3). Nodes are visited against their ids, so
// every gradient is complete before it is passed on, and contributions are summed in the order of
// falling reader ids: the same nodes each time.
#include <map>
#include <set>

#include "troupe/graph.hpp"
#include "troupe/op.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

// What nodes made on behalf of `node` have in common: its name, device, slot, colocation and
// origin, none of the open scope's.
class OnBehalf {
 public:
  OnBehalf(Graph& graph, const Node& node)
      : cleared_(graph.scope({.name = "gradients/" + node.name, .device = ""})),
        like_node_(graph.scope({.device = node.device,
                                .slot = slot_of(node),
                                .colocate_with = node.colocate_with,
                                .origin = Origin{node.file.c_str(), node.line}})) {}

 private:
  static std::optional<int64_t> slot_of(const Node& node) {
    const auto it = node.attrs.find("slot");
    if (it == node.attrs.end() || !std::holds_alternative<int64_t>(it->second)) return std::nullopt;
    return std::get<int64_t>(it->second);
  }
  Graph::Scope cleared_;
  Graph::Scope like_node_;
};

const std::vector<Output>& sources_of(const Graph& graph, const Node& node) {
  const Graph::Backward* backward = graph.backward(node.id);
  return backward ? backward->inputs : node.inputs;
}

class Pass {
 public:
  Pass(Graph& graph, const std::vector<Output>& xs) : graph_(graph), xs_(xs.begin(), xs.end()) {
    depends_.resize(graph.nodes().size());
    for (size_t id = 0; id < depends_.size(); ++id)
      for (const Output& source : sources_of(graph, *graph.nodes()[id]))
        if (carries(source)) depends_[id] = true;
  }

  // Whether a gradient that arrives at `output` is wanted: it is floating, and is an x or depends
  // on one.
  bool carries(const Output& output) const {
    return is_floating(output.dtype()) &&
           (xs_.count(output) || depends_[static_cast<size_t>(output.node)]);
  }

  void contribute(const Output& output, const Output& gradient) {
    contributions_[output].push_back(gradient);
    open_.insert(output.node);
  }

  void run() {
    while (!open_.empty()) {
      const int32_t id = *open_.rbegin();
      open_.erase(id);
      go_back(graph_.node(id));
    }
  }

  Output total(const Output& output) const {
    const auto it = totals_.find(output);
    return it == totals_.end() ? Output() : it->second;
  }

 private:
  void go_back(const Node& node) {
    const OnBehalf scope(graph_, node);
    std::vector<Output> output_gradients(node.outputs.size());
    for (int32_t i = 0; i < static_cast<int32_t>(node.outputs.size()); ++i)
      output_gradients[static_cast<size_t>(i)] = sum({&graph_, node.id, i});
    if (!depends_[static_cast<size_t>(node.id)]) return;  // an x that depends on no other
    const std::vector<Output> gradients = ask(node, std::move(output_gradients));
    const std::vector<Output>& sources = sources_of(graph_, node);
    TROUPE_CHECK(gradients.size() == sources.size(), "the gradient of the ", describe(node),
                 " has ", gradients.size(), " parts for ", sources.size(), " inputs");
    for (size_t i = 0; i < sources.size(); ++i) {
      if (!gradients[i].defined() || !carries(sources[i])) continue;
      check(node, i, sources[i], gradients[i]);
      contribute(sources[i], gradients[i]);
    }
  }

  std::vector<Output> ask(const Node& node, std::vector<Output> output_gradients) {
    if (const Graph::Backward* backward = graph_.backward(node.id))
      return backward->build(output_gradients[0]);
    if (node.op->gradient)
      return node.op->gradient(GradientContext(graph_, node, std::move(output_gradients)));
    throw Error(Errc::invalid_argument, describe(node), ": ", node.op->name, " has no gradient",
                node.op->no_gradient.empty() ? "" : ": " + node.op->no_gradient,
                "; put stop_gradient before it, or give one by with_gradient");
  }

  Output sum(const Output& output) {
    const auto it = contributions_.find(output);
    if (it == contributions_.end()) return {};
    Output total = it->second.front();
    for (size_t i = 1; i < it->second.size(); ++i)
      total = graph_.add({.op = "Add", .inputs = {total, it->second[i]}, .name = "sum"});
    return totals_[output] = total;
  }

  static void check(const Node& node, size_t i, const Output& source, const Output& gradient) {
    const Shape &a = source.shape(), &b = gradient.shape();
    bool fits = source.dtype() == gradient.dtype() && a.ndim() == b.ndim();
    for (int d = 0; fits && d < a.ndim(); ++d) fits = a[d] == b[d] || a[d] < 0 || b[d] < 0;
    if (!fits)
      throw Error(Errc::invalid_argument, "the gradient of the ", describe(node), " for its input ",
                  i, " is ", TensorType{gradient.dtype(), b}, ", but the input is ",
                  TensorType{source.dtype(), a}, "; a gradient has the type of its input");
  }

  Graph& graph_;
  std::set<Output> xs_;
  std::vector<bool> depends_;  // by node: some output depends on an x
  std::map<Output, std::vector<Output>> contributions_;
  std::map<Output, Output> totals_;
  std::set<int32_t> open_;  // nodes with contributions that have not been visited
};

Output ones_like(const Output& y) {
  Graph& graph = *y.graph;
  if (y.shape().is_known()) return fill(graph, y.shape(), 1, y.dtype(), "ones");
  return broadcast_like(fill(graph, Shape{}, 1, y.dtype(), "one"), y);
}

template <class... Parts>
Error bad_call(Origin at, const Parts&... parts) {
  return Error(Errc::invalid_argument, "gradients() called at ", at.file, ":", at.line, ": ",
               detail::concat(parts...));
}

Graph& check_call(const std::vector<Output>& ys, const std::vector<Output>& xs,
                  const std::vector<Output>& y_gradients, Origin at) {
  if (ys.empty()) throw bad_call(at, "there is no y to differentiate");
  if (!y_gradients.empty() && y_gradients.size() != ys.size())
    throw bad_call(at, "wants one y gradient for each of ", ys.size(), " ys, got ",
                   y_gradients.size());
  Graph* graph = ys[0].graph;
  const auto check = [&](const Output& output, const char* what, size_t i) {
    if (!output.defined()) throw bad_call(at, what, " ", i, " is an undefined Output");
    if (output.graph != graph)
      throw bad_call(at, what, " ", i, " (", output.name(), ") is of another graph than y 0");
    const size_t count = graph->node(output.node).outputs.size();
    if (output.index < 0 || output.index >= static_cast<int32_t>(count))
      throw bad_call(at, what, " ", i, " is output ", output.index, " of the ",
                     describe(graph->node(output.node)), ", which has ", count);
  };
  for (size_t i = 0; i < ys.size(); ++i) {
    check(ys[i], "y", i);
    if (!is_floating(ys[i].dtype()))
      throw bad_call(at, "y ", i, " (", ys[i].name(), ") is ", ys[i].dtype(),
                     "; only f32 and f64 have gradients");
  }
  for (size_t i = 0; i < xs.size(); ++i) check(xs[i], "x", i);
  for (size_t i = 0; i < y_gradients.size(); ++i) {
    if (!y_gradients[i].defined()) continue;
    check(y_gradients[i], "y gradient", i);
    const TensorType wanted{ys[i].dtype(), ys[i].shape()},
        got{y_gradients[i].dtype(), y_gradients[i].shape()};
    if (wanted.dtype != got.dtype ||
        !(wanted.shape.accepts(got.shape) || got.shape.accepts(wanted.shape)))
      throw bad_call(at, "y gradient ", i, " is ", got, ", but y ", i, " (", ys[i].name(), ") is ",
                     wanted);
  }
  return *graph;
}

}  // namespace

std::vector<Output> gradients(const std::vector<Output>& ys, const std::vector<Output>& xs,
                              const std::vector<Output>& y_gradients, Origin at) {
  Graph& graph = check_call(ys, xs, y_gradients, at);
  Pass pass(graph, xs);
  for (size_t i = 0; i < ys.size(); ++i) {
    if (!pass.carries(ys[i])) continue;
    const bool given = !y_gradients.empty() && y_gradients[i].defined();
    const OnBehalf scope(graph, graph.node(ys[i].node));
    pass.contribute(ys[i], given ? y_gradients[i] : ones_like(ys[i]));
  }
  pass.run();
  std::vector<Output> result;
  for (const Output& x : xs) result.push_back(pass.total(x));
  return result;
}

}  // namespace troupe

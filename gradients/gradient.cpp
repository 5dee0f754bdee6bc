// gradients: the pass that adds the backward half of a graph (reverse-mode accumulation; Griewank
// and Walther, Evaluating Derivatives, 2008, chapter 3). Nodes are visited in falling order of ids,
// so every gradient is complete before it is passed on, and contributions are summed in falling
// order of reader ids: the same nodes each time. Gradients of branches are in
// gradients/gradient_frames.cpp, those of loops in gradients/loop_gradient.cpp.
#include <algorithm>

#include "gradients/function_parts.hpp"
#include "gradients/gradient_pass.hpp"
#include "graph/frames.hpp"
#include "graph/op.hpp"
#include "graph/prune.hpp"
#include "troupe/op.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

Output seed_gradient(const Output& y) {
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
  if (ys.empty()) throw bad_call(at, "there is no y to differentiate; pass a loss");
  if (!y_gradients.empty() && y_gradients.size() != ys.size())
    throw bad_call(at, "wants one y gradient for each of ", ys.size(), " ys, got ",
                   y_gradients.size(), "; leave them out for ones");
  Graph* graph = ys[0].graph;
  const auto check = [&](const Output& output, const char* what, size_t i) {
    if (!output.defined())
      throw bad_call(at, what, " ", i, " is an undefined Output; pass the result of an op");
    if (output.graph != graph)
      throw bad_call(at, what, " ", i, " (", output.name(),
                     ") is of another graph than y 0; build both in one Graph");
    const size_t count = graph->node(output.node).outputs.size();
    if (output.index < 0 || output.index >= static_cast<int32_t>(count))
      throw bad_call(at, what, " ", i, " is output ", output.index, " of the ",
                     describe(graph->node(output.node)), ", which has ", count,
                     count == 1 ? " output" : " outputs");
  };
  for (size_t i = 0; i < ys.size(); ++i) {
    check(ys[i], "y", i);
    if (!is_floating(ys[i].dtype()))
      throw bad_call(at, "y ", i, " (", ys[i].name(), ") is ", ys[i].dtype(),
                     "; only floating-point numbers have gradients, so cast it");
  }
  for (size_t i = 0; i < xs.size(); ++i) check(xs[i], "x", i);
  for (size_t i = 0; i < y_gradients.size(); ++i) {
    if (!y_gradients[i].defined()) continue;
    check(y_gradients[i], "y gradient", i);
    const TensorType wanted{ys[i].dtype(), ys[i].shape()},
        got{y_gradients[i].dtype(), y_gradients[i].shape()};
    if (wanted.dtype != got.dtype || !may_equal(wanted.shape, got.shape))
      throw bad_call(at, "y gradient ", i, " is ", got, ", but y ", i, " (", ys[i].name(), ") is ",
                     wanted, "; a gradient has the type of its y");
  }
  return *graph;
}

void check_type(const Node& node, size_t i, const Output& target, const Output& gradient) {
  const TensorType wanted{target.dtype(), target.shape()}, got{gradient.dtype(), gradient.shape()};
  if (wanted.dtype != got.dtype || !may_equal(wanted.shape, got.shape))
    throw Error(Errc::invalid_argument, "the gradient of the ", describe(node), " for its input ",
                i, " is ", got, ", but the input is ", wanted,
                "; a gradient has the type of its input");
}

}  // namespace

GradientPass::GradientPass(Graph& graph, const std::vector<Output>& xs)
    : graph_(graph),
      xs_(xs.begin(), xs.end()),
      depends_(graph.nodes().size()),
      frames_(graph),
      again_(graph, frames_),
      saved_(std::make_shared<SavedGradients>(graph)) {
  // Visits the nodes in order; starts again from a variable of a loop that turns out to depend.
  for (size_t id = 0; id < depends_.size(); ++id) {
    const Node& node = *graph.nodes()[id];
    if (const int32_t original = stands_for(node); original != node.id) {
      for (int32_t i = 0; i < static_cast<int32_t>(node.outputs.size()); ++i)
        depends_[id] = depends_[id] || carries({&graph, original, i});
      continue;
    }
    for (const Output& target : gradient_targets(graph, node))
      if (carries(target)) depends_[id] = true;
    // Do not differentiate through a Restore that is itself one of `xs`.
    if (node.op->control == ControlKind::restore && !xs_.count({&graph, node.id, 0}))
      for (int32_t before : node.control_inputs)
        if (graph.node(before).op->control == ControlKind::save)
          depends_[id] = carries(graph.node(before).inputs[0]);
    if (node.op->control != ControlKind::repeat) continue;
    const size_t variables = node.inputs.size() / 2;
    size_t again = id;
    for (size_t i = 0; i < variables; ++i) {
      const Output variable = node.inputs[i], next = node.inputs[variables + i];
      const auto at = static_cast<size_t>(variable.node);
      if (!is_floating(variable.dtype()) || depends_[at] || !carries(next)) continue;
      depends_[at] = true;
      again = std::min(again, at);
    }
    id = again;
  }
}

bool GradientPass::carries(const Output& output) const {
  return is_floating(output.dtype()) && (xs_.count(output) || depends(output.node));
}

void GradientPass::contribute(const Output& output, const Output& gradient) {
  contributions_[output].push_back(gradient);
  open_.insert(output.node);
}

void GradientPass::run() {
  while (!open_.empty()) {
    const int32_t id = *open_.rbegin();
    open_.erase(id);
    go_back(graph_.node(id));
  }
}

Output GradientPass::total(const Output& output) const {
  const auto it = totals_.find(output);
  return it == totals_.end() ? Output() : it->second;
}

void GradientPass::go_back(const Node& node) {
  const OnBehalf scope(graph_, node, frames_.of(node.frame), frames_.route());
  std::vector<Output> output_gradients(node.outputs.size());
  for (int32_t i = 0; i < static_cast<int32_t>(node.outputs.size()); ++i)
    output_gradients[static_cast<size_t>(i)] = sum({&graph_, node.id, i});
  // An x that depends on no other x ends here.
  const bool wanted_inside =
      node.op->control == ControlKind::repeat && saved_->any_inside(loop_of(graph_, node));
  if (!depends(node.id) && !wanted_inside) return;
  if (const int32_t original = stands_for(node); original != node.id) {
    for (int32_t i = 0; i < static_cast<int32_t>(node.outputs.size()); ++i)
      if (const Output gradient = output_gradients[static_cast<size_t>(i)],
          target{&graph_, original, i};
          gradient.defined() && carries(target))
        contribute(target, gradient);
    return;
  }
  const ControlKind kind = node.op->control;
  if (kind != ControlKind::none && kind != ControlKind::call)
    return go_back_control(node, output_gradients);
  const std::vector<Output> gradients = ask(node, std::move(output_gradients));
  const std::vector<Output> targets = gradient_targets(graph_, node);
  if (gradients.size() != targets.size())
    throw Error(Errc::invalid_argument, "the gradient of the ", describe(node), " has ",
                gradients.size(), " parts, but there are ", targets.size(),
                " inputs; it must give one Output for each, undefined where there is nothing to "
                "pass on");
  for (size_t i = 0; i < targets.size(); ++i) {
    if (!gradients[i].defined() || !carries(targets[i])) continue;
    check_type(node, i, targets[i], gradients[i]);
    contribute(targets[i], frames_.leave(gradients[i], node.frame, targets[i]));
  }
}

void GradientPass::go_back_control(const Node& node, const std::vector<Output>& output_gradients) {
  switch (node.op->control) {
    case ControlKind::merge:
      for (const Output& input : node.inputs) {
        if (!carries(input)) continue;
        const auto inside =
            open_frame(graph_, frames_.of(graph_.node(input.node).frame), frames_.route());
        contribute(input, captured(graph_, output_gradients[0]));
      }
      return;
    case ControlKind::capture: {
      const int32_t opener = node.frame;
      // A value that a loop captured is an x of the pass through its body.
      if (graph_.node(opener).op->control == ControlKind::loop && frames_.is_mapped(opener)) return;
      const Output target = node.inputs[0];
      if (carries(target)) contribute(target, frames_.leave(output_gradients[0], opener, target));
      return;
    }
    case ControlKind::repeat:
      return go_back_loop(graph_, *this, node, output_gradients);
    case ControlKind::variable:
      if (frames_.is_mapped(node.frame)) return;
      throw Error(Errc::invalid_argument, describe(node), ": gradients() of a value inside its ",
                  "loop wants xs inside the loop's body; differentiate what the loop returns");
    default:
      throw Error(Errc::invalid_argument, describe(node), ": ", node.op->name,
                  " has no gradient: ", node.op->no_gradient);
  }
}

// GradientContext::gradients() calls this.
static std::vector<Output> differentiate(const std::vector<Output>& ys,
                                         const std::vector<Output>& xs,
                                         const std::vector<Output>& y_gradients) {
  return gradients(ys, xs, y_gradients);
}

std::vector<Output> GradientPass::ask(const Node& node, std::vector<Output> output_gradients) {
  if (const Backward* backward = backward_of(graph_, node.id))
    return backward->build(output_gradients[0]);
  const auto gradient = node.op->control == ControlKind::call ? call_gradient : node.op->gradient;
  if (gradient) {
    const Node& as_read = again_.again(node, output_gradients, frames_.route());
    return gradient(GradientContext(graph_, as_read, std::move(output_gradients), differentiate));
  }
  throw Error(Errc::invalid_argument, describe(node), ": ", node.op->name, " has no gradient",
              node.op->no_gradient.empty() ? "" : ": " + node.op->no_gradient,
              "; put stop_gradient before it, or give one by with_gradient");
}

// A copy in another frame than its original, that of a backward loop, keeps its own gradient.
int32_t GradientPass::stands_for(const Node& node) const {
  const int32_t original = original_of(graph_, node.id);
  return graph_.node(original).frame == node.frame ? original : node.id;
}

Output GradientPass::sum(const Output& output) {
  const auto it = contributions_.find(output);
  if (it == contributions_.end()) return {};
  Output total = it->second.front();
  for (size_t i = 1; i < it->second.size(); ++i)
    total = graph_.add({.op = "Add", .inputs = {total, it->second[i]}, .name = "sum"});
  return totals_[output] = total;
}

std::vector<Output> gradients(const std::vector<Output>& ys, const std::vector<Output>& xs,
                              const std::vector<Output>& y_gradients, Origin at) {
  Graph& graph = check_call(ys, xs, y_gradients, at);
  GradientPass pass(graph, xs);
  pass.set_ends(ys);
  for (size_t i = 0; i < ys.size(); ++i) {
    if (!pass.carries(ys[i])) continue;
    const bool given = !y_gradients.empty() && y_gradients[i].defined();
    const Node& y = graph.node(ys[i].node);
    const OnBehalf scope(graph, y, y.frame, {});
    pass.contribute(ys[i], given ? y_gradients[i] : seed_gradient(ys[i]));
  }
  pass.run();
  std::vector<Output> result;
  for (const Output& x : xs) result.push_back(pass.total(x));
  return result;
}

}  // namespace troupe

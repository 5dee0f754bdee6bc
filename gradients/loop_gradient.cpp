// Gradients through a loop: a backward loop runs as often as the forward loop did. Its variables
// are the number of iterations left, the gradients of the forward loop's variables, and sums of the
// gradients of captured values. The forward loop saves the values of an iteration that the backward
// loop needs, which takes them in reverse order; or, if the loop was made so, the backward loop
// computes them again from the variables. A backward loop has a gradient like any other loop: it
// saves the gradients of the values that it takes for the loop that goes back through the forward
// loop (gradients/saved_gradients.hpp).
#include <map>
#include <memory>

#include "gradients/gradient_pass.hpp"
#include "graph/frames.hpp"
#include "graph/op.hpp"
#include "troupe/op.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/control_flow.hpp"

namespace troupe {
namespace {

// Maps values of the forward loop to values that the backward loop reads in their place.
class StandIns {
 public:
  StandIns(Graph& graph, const Node& repeat, GradientFrames& frames, FrameRoute elsewhere)
      : graph_(graph),
        frames_(frames),
        elsewhere_(std::move(elsewhere)),
        loop_(graph.node(repeat.inputs[0].node).frame),
        body_(graph.node(repeat.inputs[repeat.inputs.size() / 2].node).frame),
        recompute_(graph.node(loop_).attr<bool>("recompute")) {}

  Output of(const Output& value) {
    const Node& node = graph_.node(value.node);
    if (!encloses(graph_, loop_, node.frame)) return elsewhere_ ? elsewhere_(value) : value;
    if (node.op->control == ControlKind::capture) return of(node.inputs[0]);
    const auto known = known_.find(value);
    if (known != known_.end()) return known->second;
    if (node.frame == loop_ && counts(node)) return number_;
    const bool plain = node.op->control == ControlKind::none && !node.op->stateful;
    if (!plain || (!node.inputs.empty() && !recompute_)) return known_[value] = restored(value);
    const Output first = again(node);
    for (int32_t i = 0; i < static_cast<int32_t>(node.outputs.size()); ++i)
      known_[{&graph_, node.id, i}] = {&graph_, first.node, i};
    return known_[value];
  }

  // The number of the iteration that the backward loop goes back through.
  void set_number(const Output& number) { number_ = number; }

 private:
  static bool counts(const Node& node) {
    return node.op->control == ControlKind::variable && node.attr<bool>("counts");
  }
  // Values outside the branches of the body, too, are kept as often as the body runs.
  int32_t frame_of(const Node& node) const { return node.frame == loop_ ? body_ : node.frame; }

  // Adds a copy of the node.
  Output again(const Node& node) {
    const auto scope = place(node, frames_.of(frame_of(node)));
    std::vector<Output> inputs;
    for (const Output& input : node.inputs) inputs.push_back(of(input));
    return graph_.add(
        {.op = node.op->name, .inputs = std::move(inputs), .attrs = node.attrs, .name = "again"});
  }

  Output restored(const Output& value) {
    const Node& node = graph_.node(value.node);
    int32_t save = -1;
    {
      const auto scope = place(node, frame_of(node));
      const auto together = graph_.scope({.colocate_with = node.name});
      save = graph_.add({.op = "Save", .inputs = {value}, .name = "save"}).node;
    }
    const auto scope = place(node, frames_.of(frame_of(node)));
    const auto together = graph_.scope({.colocate_with = graph_.node(save).name});
    return graph_.add({.op = "Restore",
                       .attrs = {{"dtype", value.dtype()}, {"shape", value.shape()}},
                       .name = "restore",
                       .control_inputs = {save}});
  }

  OnBehalf place(const Node& node, int32_t frame) {
    return OnBehalf(graph_, node, frame, [this](const Output& value) { return of(value); });
  }

  Graph& graph_;
  GradientFrames& frames_;
  const FrameRoute elsewhere_;
  const int32_t loop_, body_;
  const bool recompute_;
  Output number_;
  std::map<Output, Output, OutputOrder> known_;
};

// sum + more. The gradient of one row of x that a body read is zeros except for that row, so it is
// added to that row alone.
Output added(Output sum, Output more) {
  const Node& node = more.graph->node(more.node);
  if (node.op->name != "GatherGradient" || node.inputs[1].shape().ndim() != 0)
    return add(sum, more);
  return tensor_scatter_add(sum, reshape(node.inputs[1], {1}), node.inputs[0]);
}

// The gradient of one loop.
class LoopGradient {
 public:
  LoopGradient(Graph& graph, GradientPass& pass, const Node& repeat);
  void go_back(const std::vector<Output>& output_gradients);

 private:
  std::vector<Output> go_back_once(GradientPass& inner, const std::vector<Output>& variables) const;
  // Makes a pass visit the loops in `around` that have gradients of values inside them.
  void open_loops(GradientPass& pass, int32_t around) const {
    for (int32_t loop : pass.saved().loops_in(around))
      if (const int32_t id = repeat_of(graph_, loop).id; id < repeat_.id) pass.visit(id);
  }

  Graph& graph_;
  GradientPass& pass_;
  const Node& repeat_;
  const size_t count_;  // number of variables
  const int32_t opener_, body_;
  std::vector<size_t> active_;  // variables whose gradients are wanted
  // Values whose gradients are wanted: captured ones, and values of other loops that the loop
  // restores.
  std::vector<Output> captured_, restored_;
};

LoopGradient::LoopGradient(Graph& graph, GradientPass& pass, const Node& repeat)
    : graph_(graph),
      pass_(pass),
      repeat_(repeat),
      count_(repeat.inputs.size() / 2),
      opener_(loop_of(graph, repeat)),
      body_(graph.node(repeat.inputs[count_].node).frame) {
  for (size_t i = 0; i < count_; ++i)
    if (pass.carries(repeat.inputs[i])) active_.push_back(i);
  for (const auto& node : graph.nodes()) {
    const Output value{&graph, node->id, 0};
    const ControlKind kind = node->op->control;
    if (kind == ControlKind::capture && node->frame == opener_ && pass.carries(value))
      captured_.push_back(value);
    if (kind == ControlKind::restore && encloses(graph, opener_, node->frame) &&
        pass.carries(value) &&
        !encloses(graph, opener_, graph.node(saved_for(graph, *node).node).frame))
      restored_.push_back(value);
  }
}

// The results of one iteration of the backward loop for its variables, except the first. Requires:
// the frame of its body is open.
std::vector<Output> LoopGradient::go_back_once(GradientPass& inner,
                                               const std::vector<Output>& variables) const {
  for (size_t k = 0; k < active_.size(); ++k)
    if (const Output next = repeat_.inputs[count_ + active_[k]]; inner.carries(next))
      inner.contribute(next, captured(graph_, variables[1 + k]));
  for (const auto& [value, save] : inner.saved().of(opener_)) {
    const Node& node = graph_.node(value.node);
    const OnBehalf place(graph_, node, inner.frames().of(node.frame), inner.frames().route());
    if (inner.carries(value)) inner.contribute(value, inner.saved().restored(save));
  }
  open_loops(inner, opener_);
  inner.run();
  for (const Output& value : restored_)
    if (const Output gradient = inner.total(value); gradient.defined()) {
      const Node& node = graph_.node(value.node);
      const OnBehalf place(graph_, node, inner.frames().of(node.frame), inner.frames().route());
      inner.saved().keep(node, gradient);
    }
  std::vector<Output> next;
  for (size_t i : active_) {
    const Output gradient = inner.total(repeat_.inputs[i]);
    next.push_back(gradient.defined() ? gradient
                                      : zeros_of(captured(graph_, variables[1 + next.size()])));
  }
  for (const Output& value : captured_) {
    const Output sum = variables[1 + next.size()], more = inner.total(value);
    next.push_back(more.defined() ? added(sum, more) : sum);
  }
  return next;
}

void LoopGradient::go_back(const std::vector<Output>& output_gradients) {
  std::vector<Output> xs = captured_;
  xs.insert(xs.end(), restored_.begin(), restored_.end());
  Output iterations{&graph_, repeat_.id, static_cast<int32_t>(count_)};
  if (std::vector<int32_t> before = pass_.saved().before(opener_); !before.empty())
    iterations = graph_.add({.op = "Identity",
                             .inputs = {iterations},
                             .name = "iterations",
                             .control_inputs = std::move(before)});
  std::vector<Output> initial = {iterations};
  std::vector<Shape> shapes = {Shape{}};
  for (size_t i : active_) {
    const Output result{&graph_, repeat_.id, static_cast<int32_t>(i)};
    initial.push_back(output_gradients[i].defined() ? output_gradients[i]
                                                    : zeros_of(captured(graph_, result)));
    shapes.push_back(result.shape());
    xs.push_back(repeat_.inputs[i]);
  }
  for (const Output& value : captured_) {
    initial.push_back(zeros_of(captured(graph_, graph_.node(value.node).inputs[0])));
    shapes.push_back(value.shape());
  }
  for (Output& value : initial) value = captured(graph_, value);
  GradientPass inner(graph_, xs);
  inner.inherit(pass_);
  StandIns stand_ins(graph_, repeat_, inner.frames(), pass_.frames().route());
  const FrameRoute route = [&](const Output& value) { return stand_ins.of(value); };
  inner.frames().set_route(route);
  const auto left_any = [&](const std::vector<Output>& v) {
    return greater(v[0], fill(graph_, {}, 0, DType::i64));
  };
  const auto body = [&](const std::vector<Output>& v) {
    const int32_t here = current_frame(graph_);
    inner.frames().map(opener_, here);
    inner.frames().map(body_, here);
    const auto frame = open_frame(graph_, here, route);
    const Output number = v[0] - 1;
    stand_ins.set_number(number);
    std::vector<Output> next = go_back_once(inner, v);
    next.insert(next.begin(), number);
    return next;
  };
  const Node& opener = graph_.node(opener_);
  const std::vector<Output> results =
      while_loop(left_any, body, initial,
                 {.iterations_in_flight = opener.attr<int64_t>("iterations_in_flight"),
                  .recompute = opener.attr<bool>("recompute"),
                  .shapes = shapes});
  for (size_t k = 0; k < active_.size(); ++k) {
    const Output target = graph_.node(repeat_.inputs[active_[k]].node).inputs[0];
    if (pass_.carries(target)) pass_.contribute(target, results[1 + k]);
  }
  for (size_t k = 0; k < captured_.size(); ++k) {
    const Output target = graph_.node(captured_[k].node).inputs[0];
    if (pass_.carries(target)) pass_.contribute(target, results[1 + active_.size() + k]);
  }
  open_loops(pass_, innermost_loop(graph_, repeat_.frame));
}

}  // namespace

void go_back_loop(Graph& graph, GradientPass& pass, const Node& repeat,
                  const std::vector<Output>& output_gradients) {
  LoopGradient(graph, pass, repeat).go_back(output_gradients);
}

}  // namespace troupe

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
#include "troupe/op.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/control_flow.hpp"

namespace troupe {
namespace {

// Maps values of the forward loop to values that the backward loop reads in their place.
class StandIns {
 public:
  StandIns(Graph& graph, const Node& repeat, GradientPass& pass, Graph::Route elsewhere)
      : graph_(graph),
        pass_(pass),
        elsewhere_(std::move(elsewhere)),
        loop_(graph.node(repeat.inputs[0].node).frame),
        body_(graph.node(repeat.inputs[repeat.inputs.size() / 2].node).frame),
        recompute_(graph.node(loop_).attr<bool>("recompute")) {}

  Output of(const Output& value) {
    const Node& node = graph_.node(value.node);
    if (!graph_.encloses(loop_, node.frame)) return elsewhere_ ? elsewhere_(value) : value;
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
    const auto scope = place(node, pass_.frame(frame_of(node)));
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
    const auto scope = place(node, pass_.frame(frame_of(node)));
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
  GradientPass& pass_;
  const Graph::Route elsewhere_;
  const int32_t loop_, body_;
  const bool recompute_;
  Output number_;
  std::map<Output, Output> known_;
};

// sum + more. The gradient of one row of x that a body read is zeros except for that row, so it is
// added to that row alone.
Output added(Output sum, Output more) {
  const Node& node = more.graph->node(more.node);
  if (node.op->name != "GatherGradient" || node.inputs[1].shape().ndim() != 0)
    return add(sum, more);
  return tensor_scatter_add(sum, reshape(node.inputs[1], {1}), node.inputs[0]);
}

}  // namespace

struct GradientPass::Loop {
  int32_t opener, body;
  size_t count;                // number of variables
  std::vector<size_t> active;  // variables whose gradients are wanted
  // Values whose gradients are wanted: captured ones, and values of other loops that the loop
  // restores.
  std::vector<Output> captured, restored;
};

GradientPass::Loop GradientPass::survey(const Node& repeat) const {
  Loop loop;
  loop.count = repeat.inputs.size() / 2;
  loop.opener = loop_of(graph_, repeat);
  loop.body = graph_.node(repeat.inputs[loop.count].node).frame;
  for (size_t i = 0; i < loop.count; ++i)
    if (carries(repeat.inputs[i])) loop.active.push_back(i);
  for (const auto& node : graph_.nodes()) {
    const Output value{&graph_, node->id, 0};
    const ControlKind kind = node->op->control;
    if (kind == ControlKind::capture && node->frame == loop.opener && carries(value))
      loop.captured.push_back(value);
    if (kind == ControlKind::restore && graph_.encloses(loop.opener, node->frame) &&
        carries(value) &&
        !graph_.encloses(loop.opener, graph_.node(saved_for(graph_, *node).node).frame))
      loop.restored.push_back(value);
  }
  return loop;
}

bool GradientPass::wanted_inside(const Node& node) const {
  return node.op->control == ControlKind::repeat && saved_->any_inside(loop_of(graph_, node));
}

// Makes this pass visit the loops in `around` that have gradients of values inside them.
void GradientPass::open_loops(int32_t around, int32_t before) {
  for (int32_t loop : saved_->loops_in(around))
    if (const int32_t id = repeat_of(graph_, loop).id; id < before) open_.insert(id);
}

// The results of one iteration of the backward loop for its variables, except the first. Requires:
// the frame of its body is open.
std::vector<Output> GradientPass::go_back_once(const Node& repeat, const Loop& loop,
                                               const std::vector<Output>& variables) {
  for (size_t k = 0; k < loop.active.size(); ++k)
    if (const Output next = repeat.inputs[loop.count + loop.active[k]]; carries(next))
      contribute(next, graph_.captured(variables[1 + k]));
  for (const auto& [value, save] : saved_->of(loop.opener)) {
    const Node& node = graph_.node(value.node);
    const OnBehalf place(graph_, node, frame(node.frame), route_);
    if (carries(value)) contribute(value, saved_->restored(save));
  }
  open_loops(loop.opener, repeat.id);
  run();
  for (const Output& value : loop.restored)
    if (const Output gradient = total(value); gradient.defined()) {
      const Node& node = graph_.node(value.node);
      const OnBehalf place(graph_, node, frame(node.frame), route_);
      saved_->keep(node, gradient);
    }
  std::vector<Output> next;
  for (size_t i : loop.active) {
    const Output gradient = total(repeat.inputs[i]);
    next.push_back(gradient.defined() ? gradient
                                      : zeros_of(graph_.captured(variables[1 + next.size()])));
  }
  for (const Output& value : loop.captured) {
    const Output sum = variables[1 + next.size()], more = total(value);
    next.push_back(more.defined() ? added(sum, more) : sum);
  }
  return next;
}

void GradientPass::go_back_loop(const Node& repeat, const std::vector<Output>& output_gradients) {
  const Loop loop = survey(repeat);
  std::vector<Output> xs = loop.captured;
  xs.insert(xs.end(), loop.restored.begin(), loop.restored.end());
  Output iterations{&graph_, repeat.id, static_cast<int32_t>(loop.count)};
  if (std::vector<int32_t> before = saved_->before(loop.opener); !before.empty())
    iterations = graph_.add({.op = "Identity",
                             .inputs = {iterations},
                             .name = "iterations",
                             .control_inputs = std::move(before)});
  std::vector<Output> initial = {iterations};
  std::vector<Shape> shapes = {Shape{}};
  for (size_t i : loop.active) {
    const Output result{&graph_, repeat.id, static_cast<int32_t>(i)};
    initial.push_back(output_gradients[i].defined() ? output_gradients[i]
                                                    : zeros_of(graph_.captured(result)));
    shapes.push_back(result.shape());
    xs.push_back(repeat.inputs[i]);
  }
  for (const Output& value : loop.captured) {
    initial.push_back(zeros_of(graph_.captured(graph_.node(value.node).inputs[0])));
    shapes.push_back(value.shape());
  }
  for (Output& value : initial) value = graph_.captured(value);
  GradientPass inner(graph_, xs);
  inner.inherit(*this);
  StandIns stand_ins(graph_, repeat, inner, route_);
  const Graph::Route route = [&](const Output& value) { return stand_ins.of(value); };
  inner.set_route(route);
  const auto left_any = [&](const std::vector<Output>& v) {
    return greater(v[0], fill(graph_, {}, 0, DType::i64));
  };
  const auto body = [&](const std::vector<Output>& v) {
    const int32_t here = graph_.frame();
    inner.map_frame(loop.opener, here);
    inner.map_frame(loop.body, here);
    const auto frame = graph_.open_frame(here, route);
    const Output number = v[0] - 1;
    stand_ins.set_number(number);
    std::vector<Output> next = inner.go_back_once(repeat, loop, v);
    next.insert(next.begin(), number);
    return next;
  };
  const Node& opener = graph_.node(loop.opener);
  const std::vector<Output> results =
      while_loop(left_any, body, initial,
                 {.iterations_in_flight = opener.attr<int64_t>("iterations_in_flight"),
                  .recompute = opener.attr<bool>("recompute"),
                  .shapes = shapes});
  for (size_t k = 0; k < loop.active.size(); ++k) {
    const Output target = graph_.node(repeat.inputs[loop.active[k]].node).inputs[0];
    if (carries(target)) contribute(target, results[1 + k]);
  }
  for (size_t k = 0; k < loop.captured.size(); ++k) {
    const Output target = graph_.node(loop.captured[k].node).inputs[0];
    if (carries(target)) contribute(target, results[1 + loop.active.size() + k]);
  }
  open_loops(innermost_loop(graph_, repeat.frame), repeat.id);
}

}  // namespace troupe

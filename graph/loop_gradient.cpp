// How gradients pass through a loop: by a loop that goes back as often as the first one went
// forward. Its variables are the number of iterations left, the gradients of the forward loop's
// variables, and sums of those of what it captured. What it needs of an iteration the forward loop
// saves, and it takes in the reverse order; or computes again from the variables, where the loop
// was made so.
#include <map>
#include <memory>

#include "graph/gradient_pass.hpp"
#include "troupe/op.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/control_flow.hpp"

namespace troupe {
namespace {

// What stands in the loop that goes back for values of the loop that went forward.
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

  // Of the iteration that the loop goes back through.
  void set_number(const Output& number) { number_ = number; }

 private:
  static bool counts(const Node& node) {
    return node.op->control == ControlKind::variable && node.attr<bool>("counts");
  }
  // Of what is in no branch of the body, too, as many values are kept as the body runs.
  int32_t frame_of(const Node& node) const { return node.frame == loop_ ? body_ : node.frame; }

  // The node once more.
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

// sum + more. Of one row of x that a body read the gradient is zeros with that row, which is added
// to the row alone.
Output added(Output sum, Output more) {
  const Node& node = more.graph->node(more.node);
  if (node.op->name != "GatherGradient" || node.inputs[1].shape().ndim() != 0)
    return add(sum, more);
  return tensor_scatter_add(sum, reshape(node.inputs[1], {1}), node.inputs[0]);
}

}  // namespace

// Of the captured values of a loop those whose gradients are wanted.
std::vector<Output> GradientPass::captured_by(int32_t loop) const {
  std::vector<Output> captured;
  for (const auto& node : graph_.nodes())
    if (node->frame == loop && node->op->control == ControlKind::capture) {
      const Output value{&graph_, node->id, 0};
      if (carries(value)) captured.push_back(value);
    }
  return captured;
}

void GradientPass::go_back_loop(const Node& repeat, const std::vector<Output>& output_gradients) {
  const size_t count = repeat.inputs.size() / 2;
  const int32_t loop = graph_.node(repeat.inputs[0].node).frame;
  const int32_t body = graph_.node(repeat.inputs[count].node).frame;
  for (const auto& node : graph_.nodes())
    if (node->op->control == ControlKind::restore && depends(node->id) &&
        graph_.encloses(loop, node->frame))
      throw Error(Errc::invalid_argument, describe(*node), ": ", node->op->no_gradient);
  std::vector<size_t> active;  // variables
  for (size_t i = 0; i < count; ++i)
    if (carries(repeat.inputs[i])) active.push_back(i);
  const std::vector<Output> captured = captured_by(loop);
  std::vector<Output> xs = captured,
                      initial = {{&graph_, repeat.id, static_cast<int32_t>(count)}};  // iterations
  std::vector<Shape> shapes = {Shape{}};
  for (size_t i : active) {
    const Output result{&graph_, repeat.id, static_cast<int32_t>(i)};
    initial.push_back(output_gradients[i].defined() ? output_gradients[i]
                                                    : zeros_of(graph_.captured(result)));
    shapes.push_back(result.shape());
    xs.push_back(repeat.inputs[i]);
  }
  for (const Output& value : captured) {
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
  const auto go_back_once = [&](const std::vector<Output>& v) {
    const int32_t here = graph_.frame();
    inner.map_frame(loop, here);
    inner.map_frame(body, here);
    const auto frame = graph_.open_frame(here, route);
    const Output number = v[0] - 1;
    stand_ins.set_number(number);
    for (size_t k = 0; k < active.size(); ++k)
      if (const Output next = repeat.inputs[count + active[k]]; inner.carries(next))
        inner.contribute(next, graph_.captured(v[1 + k]));
    inner.run();
    std::vector<Output> next = {number};
    for (size_t i : active) {
      const Output total = inner.total(repeat.inputs[i]);
      next.push_back(total.defined() ? total : zeros_of(graph_.captured(v[next.size()])));
    }
    for (const Output& value : captured) {
      const Output sum = v[next.size()], more = inner.total(value);
      next.push_back(more.defined() ? added(sum, more) : sum);
    }
    return next;
  };
  const Node& opener = graph_.node(loop);
  const std::vector<Output> results = while_loop(
      left_any, go_back_once, initial,
      {.iterations_in_flight = opener.attr<int64_t>("iterations_in_flight"), .shapes = shapes});
  for (size_t k = 0; k < active.size(); ++k) {
    const Output target = graph_.node(repeat.inputs[active[k]].node).inputs[0];
    if (carries(target)) contribute(target, results[1 + k]);
  }
  for (size_t k = 0; k < captured.size(); ++k) {
    const Output target = graph_.node(captured[k].node).inputs[0];
    if (carries(target)) contribute(target, results[1 + active.size() + k]);
  }
}

}  // namespace troupe

// Gradients through branches: they enter each branch at a Merge, and leave it at its captures. A
// gradient that leaves a branch is merged with zeros from a frame that runs when the branch does
// not, so it can be added to gradients from elsewhere.
#include "gradients/gradient_pass.hpp"
#include "troupe/op.hpp"
#include "troupe/ops.hpp"

namespace troupe {

Output zeros_of(Output x) {
  Graph& graph = *x.graph;
  if (x.shape().is_known()) return fill(graph, x.shape(), 0, x.dtype(), "zeros");
  return broadcast_like(fill(graph, Shape{}, 0, x.dtype(), "zero"), x);
}

int32_t GradientPass::frame(int32_t forward) {
  if (forward < 0) return forward;
  if (const auto known = frames_.find(forward); known != frames_.end()) return known->second;
  const Node& opener = graph_.node(forward);
  const int32_t around = frame(opener.frame);
  if (around == opener.frame) return forward;
  TROUPE_CHECK(opener.op->control == ControlKind::branch, "the gradient of the ", describe(opener),
               " is not in place");
  return frames_[forward] = branch_like(forward, around, false);
}

// A branch in `frame` that is taken when the one that `forward` opens was taken, or when it was not
// (`turned`).
int32_t GradientPass::branch_like(int32_t forward, int32_t frame, bool turned) {
  const Node& opener = graph_.node(forward);
  const OnBehalf scope(graph_, opener, frame, route_);
  Attrs attrs = opener.attrs;
  if (turned) attrs["otherwise"] = !opener.attr<bool>("otherwise");
  return graph_
      .add({.op = opener.op->name,
            .inputs = opener.inputs,
            .attrs = std::move(attrs),
            .name = turned ? "untaken" : "taken"})
      .node;
}

int32_t GradientPass::otherwise(int32_t forward) {
  const auto [known, fresh] = untaken_.try_emplace(forward, -1);
  if (fresh) known->second = branch_like(forward, frame(graph_.node(forward).frame), true);
  return known->second;
}

// Moves `gradient` from the frame for gradients of values in `from` to that for gradients of
// `target`, which is in a frame around `from`.
Output GradientPass::leave_frames(Output gradient, int32_t from, const Output& target) {
  const int32_t to = graph_.node(target.node).frame;
  while (from != to) {
    const Node& opener = graph_.node(from);
    const int32_t around = frame(opener.frame);
    if (frame(from) != around) {
      if (opener.op->control != ControlKind::branch)
        throw Error(Errc::invalid_argument, "gradients() inside the ", describe(opener),
                    " wants xs that are inside, too; differentiate what it returns instead");
      const auto untaken = graph_.open_frame(otherwise(from), route_);
      const Output zeros = zeros_of(graph_.captured(target));
      const auto outside = graph_.open_frame(around, route_);
      gradient = graph_.add({.op = "Merge", .inputs = {gradient, zeros}});
    }
    from = opener.frame;
  }
  return gradient;
}

void GradientPass::go_back_control(const Node& node, const std::vector<Output>& output_gradients) {
  switch (node.op->control) {
    case ControlKind::merge:
      for (const Output& input : node.inputs) {
        if (!carries(input)) continue;
        const auto inside = graph_.open_frame(frame(graph_.node(input.node).frame), route_);
        contribute(input, graph_.captured(output_gradients[0]));
      }
      return;
    case ControlKind::capture: {
      const int32_t opener = node.frame;
      // A value that a loop captured is an x of the pass through its body.
      if (graph_.node(opener).op->control == ControlKind::loop && frames_.count(opener)) return;
      const Output target = node.inputs[0];
      if (carries(target)) contribute(target, leave_frames(output_gradients[0], opener, target));
      return;
    }
    case ControlKind::repeat:
      return go_back_loop(node, output_gradients);
    case ControlKind::variable:
      if (frames_.count(node.frame)) return;
      throw Error(Errc::invalid_argument, describe(node), ": gradients() of a value inside its ",
                  "loop wants xs inside the loop's body; differentiate what the loop returns");
    default:
      throw Error(Errc::invalid_argument, describe(node), ": ", node.op->name,
                  " has no gradient: ", node.op->no_gradient);
  }
}

}  // namespace troupe

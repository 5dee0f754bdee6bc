// Gradients through branches: they enter each branch at a Merge, and leave it at its captures. A
// gradient that leaves a branch is merged with zeros from a frame that runs when the branch does
// not, so it can be added to gradients from elsewhere.
#include "gradients/gradient_frames.hpp"

#include "graph/frames.hpp"
#include "graph/op.hpp"
#include "troupe/op.hpp"
#include "troupe/ops.hpp"

namespace troupe {

OnBehalf::OnBehalf(Graph& graph, const Node& node, int32_t frame, const FrameRoute& route)
    : cleared_(graph.scope({.name = "gradients/" + node.name,
                            .device = "",
                            .recompute = false,
                            .compute = DType::none})),
      like_node_(graph.scope({.device = node.device,
                              .replica = node.replica,
                              .colocate_with = node.colocate_with,
                              .origin = Origin{node.file.c_str(), node.line}})),
      frame_(open_frame(graph, frame, route)) {}

Output zeros_of(Output x) {
  Graph& graph = *x.graph;
  if (x.shape().is_known()) return fill(graph, x.shape(), 0, x.dtype(), "zeros");
  return broadcast_like(fill(graph, Shape{}, 0, x.dtype(), "zero"), x);
}

int32_t GradientFrames::of(int32_t forward) {
  if (forward < 0) return forward;
  if (const auto known = frames_.find(forward); known != frames_.end()) return known->second;
  const Node& opener = graph_.node(forward);
  const int32_t around = of(opener.frame);
  if (around == opener.frame) return forward;
  TROUPE_CHECK(opener.op->control == ControlKind::branch, "the gradient of the ", describe(opener),
               " is not in place");
  return frames_[forward] = branch_like(forward, around, false);
}

// A branch in `frame` that is taken when the one that `forward` opens was taken, or when it was not
// (`turned`).
int32_t GradientFrames::branch_like(int32_t forward, int32_t frame, bool turned) {
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

int32_t GradientFrames::otherwise(int32_t forward) {
  const auto [known, fresh] = untaken_.try_emplace(forward, -1);
  if (fresh) known->second = branch_like(forward, of(graph_.node(forward).frame), true);
  return known->second;
}

Output GradientFrames::leave(Output gradient, int32_t from, const Output& target) {
  const int32_t to = graph_.node(target.node).frame;
  while (from != to) {
    const Node& opener = graph_.node(from);
    const int32_t around = of(opener.frame);
    if (of(from) != around) {
      if (opener.op->control != ControlKind::branch)
        throw Error(Errc::invalid_argument, "gradients() inside the ", describe(opener),
                    " wants xs that are inside, too; differentiate what it returns instead");
      const auto untaken = open_frame(graph_, otherwise(from), route_);
      const Output zeros = zeros_of(captured(graph_, target));
      const auto outside = open_frame(graph_, around, route_);
      gradient = graph_.add({.op = "Merge", .inputs = {gradient, zeros}});
    }
    from = opener.frame;
  }
  return gradient;
}

}  // namespace troupe

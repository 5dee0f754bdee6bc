// The list of saved gradients, and searches for loops around a frame.
#include "gradients/saved_gradients.hpp"

#include <algorithm>

#include "graph/frames.hpp"
#include "graph/op.hpp"
#include "troupe/op.hpp"

namespace troupe {
namespace {

// The loop around `frame` that is in `around` and in no other loop inside `around`; -1: none.
int32_t loop_inside(const Graph& graph, int32_t around, int32_t frame) {
  int32_t loop = innermost_loop(graph, frame);
  while (loop >= 0) {
    const int32_t next = innermost_loop(graph, graph.node(loop).frame);
    if (next == around) return loop;
    loop = next;
  }
  return -1;
}

}  // namespace

int32_t innermost_loop(const Graph& graph, int32_t frame) {
  while (frame >= 0 && graph.node(frame).op->control != ControlKind::loop)
    frame = graph.node(frame).frame;
  return frame;
}

int32_t loop_of(const Graph& graph, const Node& repeat) {
  return graph.node(repeat.inputs[0].node).frame;
}

const Node& repeat_of(const Graph& graph, int32_t loop) {
  const auto& nodes = graph.nodes();
  const auto found = std::find_if(nodes.begin() + loop + 1, nodes.end(), [&](const auto& node) {
    return node->op->control == ControlKind::repeat && loop_of(graph, *node) == loop;
  });
  TROUPE_CHECK(found != nodes.end(), "the ", describe(graph.node(loop)), " has no end");
  return **found;
}

Output saved_for(const Graph& graph, const Node& restore) {
  for (int32_t id : restore.control_inputs)
    if (const Node& save = graph.node(id); save.op->control == ControlKind::save)
      return save.inputs[0];
  throw InternalError(describe(restore) + " runs after no Save");
}

void SavedGradients::keep(const Node& restore, const Output& gradient) {
  const auto together = graph_.scope({.colocate_with = restore.name});
  const int32_t save = graph_.add({.op = "Save", .inputs = {gradient}, .name = "save"}).node;
  kept_.emplace_back(saved_for(graph_, restore), save);
}

bool SavedGradients::any_inside(int32_t loop) const {
  return std::any_of(kept_.begin(), kept_.end(), [&](const auto& one) {
    return encloses(graph_, loop, graph_.node(one.first.node).frame);
  });
}

std::vector<int32_t> SavedGradients::loops_in(int32_t around) const {
  std::vector<int32_t> loops;
  for (const auto& [value, save] : kept_)
    if (const int32_t loop = loop_inside(graph_, around, graph_.node(value.node).frame); loop >= 0)
      loops.push_back(loop);
  return loops;
}

std::vector<std::pair<Output, int32_t>> SavedGradients::of(int32_t loop) const {
  std::vector<std::pair<Output, int32_t>> out;
  for (const auto& one : kept_)
    if (innermost_loop(graph_, graph_.node(one.first.node).frame) == loop) out.push_back(one);
  return out;
}

Output SavedGradients::restored(int32_t save) const {
  const auto together = graph_.scope({.colocate_with = graph_.node(save).name});
  const Output kept = graph_.node(save).inputs[0];
  return graph_.add({.op = "Restore",
                     .attrs = {{"dtype", kept.dtype()}, {"shape", kept.shape()}},
                     .name = "restore",
                     .control_inputs = {save}});
}

std::vector<int32_t> SavedGradients::before(int32_t loop) const {
  std::vector<int32_t> ids;
  const int32_t around = innermost_loop(graph_, current_frame(graph_));
  for (const auto& [value, save] : kept_) {
    if (!encloses(graph_, loop, graph_.node(value.node).frame)) continue;
    const int32_t saved_by = loop_inside(graph_, around, graph_.node(save).frame);
    if (saved_by < 0) continue;  // from another iteration of the loop around both, which runs later
    const Node& repeat = repeat_of(graph_, saved_by);
    TROUPE_CHECK(encloses(graph_, repeat.frame, current_frame(graph_)), "the ", describe(repeat),
                 " is in another branch than the loop that restores its gradients");
    ids.push_back(repeat.id);
  }
  return ids;
}

}  // namespace troupe

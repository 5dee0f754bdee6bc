// defer_broadcast: removes nodes that broadcast a small value to a large one, such as the gradient
// of a mean, if all their readers are element-wise and broadcast themselves. The readers then read
// the small value, and the large one is never in memory. If the large value is cut along an axis
// that it is not repeated along, as for the parts of a concatenation, the small value is cut
// instead.
//
// The elements are the same: a share is divided before it is broadcast, as in the op itself.
//
// Left alone: values of fewer than kWorthIt elements, or that would be read in runs shorter than
// kRunMin; shapes that only a step knows; nodes that are fetched, fed, awaited or a partner, or run
// after another node; frames; devices other than CPUs; a reader that has no other input of its
// size.
#include "placement/passes/defer_broadcast.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "graph/made_nodes.hpp"
#include "graph/op.hpp"
#include "graph/op_properties.hpp"
#include "placement/passes/on_cpu.hpp"
#include "placement/passes/passes.hpp"

namespace troupe {
namespace {

constexpr int64_t kWorthIt = 1 << 14, kRunMin = 32;

bool has_axis(const Node& broadcast, int d) {
  return properties_of(broadcast).arrangement.repeated(broadcast).dimensions >> d & 1;
}

class DeferBroadcast {
 public:
  explicit DeferBroadcast(CallGraph& call)
      : call_(call), graph_(*call.graph), roles_(roles_of(call)), readers_(graph_.nodes().size()) {
    for (const auto& node : graph_.nodes())
      if (roles(*node).runs)
        for (const Output& input : node->inputs) {
          std::vector<int32_t>& list = readers_[static_cast<size_t>(input.node)];
          if (list.empty() || list.back() != node->id) list.push_back(node->id);
        }
  }

  Edits run() {
    const auto count = static_cast<int32_t>(graph_.nodes().size());
    std::vector<int32_t> found;
    for (int32_t id = 0; id < count; ++id)
      if (is_broadcast(graph_.node(id))) {
        large_.insert(id);
        found.push_back(id);
      }
    std::map<Output, Output, OutputOrder> instead;
    for (int32_t id : found)
      if (all_take_small(graph_.node(id))) replace(graph_.node(id), instead);
    Edits edits(call_);
    std::set<int32_t> changed;
    for (const auto& [large, small] : instead)
      for (int32_t id : readers_[static_cast<size_t>(large.node)]) changed.insert(id);
    for (int32_t id : changed) {
      const Node& node = graph_.node(id);
      if (is_cut(node)) continue;  // has no readers any more
      std::vector<Output> inputs = node.inputs;
      for (Output& input : inputs)
        if (const auto it = instead.find(input); it != instead.end()) input = it->second;
      edits.change(node, *node.op, std::move(inputs), node.attrs);
    }
    return edits;
  }

 private:
  const NodeRoles& roles(const Node& node) const { return roles_[static_cast<size_t>(node.id)]; }

  bool stands_free(const Node& node) const {
    return roles(node).runs && roles(node).free() && node.control_inputs.empty() &&
           node.frame < 0 && is_on_cpu(node);
  }

  // `shape`, of a broadcast value or of a part of it, before the broadcast.
  static Shape small_shape(const Node& broadcast, Shape shape) {
    for (int d = 0; d < shape.ndim(); ++d)
      if (has_axis(broadcast, d)) shape.set(d, 1);
    return shape;
  }

  bool is_broadcast(const Node& node) const {
    if (!properties_of(node).arrangement.repeated || !stands_free(node)) return false;
    const TensorType& type = node.outputs[0];
    if (!is_wide_float(type.dtype) || !type.shape.is_known() || type.shape.size() < kWorthIt)
      return false;
    const int ndim = type.shape.ndim();
    int64_t run = 1;
    for (int d = ndim; d-- > 0 && has_axis(node, d) == has_axis(node, ndim - 1);)
      run *= type.shape[d];
    return run >= kRunMin;
  }

  // True if the node cuts a broadcast value along an axis that it is not repeated along.
  bool is_cut(const Node& node) const {
    if (!properties_of(node).arrangement.cut_axis || !large_.count(node.inputs[0].node))
      return false;
    const Node& whole = graph_.node(node.inputs[0].node);
    return stands_free(node) && node.device == whole.device && !has_axis(whole, axis_of(node)) &&
           std::none_of(node.inputs.begin() + 1, node.inputs.end(),
                        [&](const Output& part) { return large_.count(part.node) > 0; });
  }
  bool is_cut_of(const Node& node, const Node& whole) const {
    return is_cut(node) && node.inputs[0].node == whole.id;
  }
  static int axis_of(const Node& cut) { return properties_of(cut).arrangement.cut_axis(cut); }

  // True if all readers of the node are element-wise, and know their size without it.
  bool all_take_small(const Node& node) const {
    const auto& readers = readers_[static_cast<size_t>(node.id)];
    return std::all_of(readers.begin(), readers.end(), [&](int32_t id) {
      const Node& reader = graph_.node(id);
      return is_cut_of(reader, node) ? all_take_small(reader) : takes_small(reader, node);
    });
  }

  bool takes_small(const Node& reader, const Node& from) const {
    if (roles(reader).fed || reader.frame >= 0 || reader.device != from.device ||
        reader.outputs.size() != 1)
      return false;
    const Kernel* kernel = find_kernel(reader, DeviceKind::cpu);
    const auto has_its_size = [&](const Output& input) {
      return input.shape() == reader.outputs[0].shape && !comes_broadcast(input);
    };
    return kernel && kernel->elements &&
           std::any_of(reader.inputs.begin(), reader.inputs.end(), has_its_size) &&
           broadcasts(reader, from);
  }

  // True if by its own rule the reader's output keeps its shape when its input from `from` is
  // small: not every element-wise op broadcasts each of its inputs.
  bool broadcasts(const Node& reader, const Node& from) const {
    const Node& whole = is_cut(from) ? graph_.node(from.inputs[0].node) : from;
    std::vector<TensorType> types;
    for (const Output& input : reader.inputs)
      types.push_back({input.dtype(),
                       input.node == from.id ? small_shape(whole, input.shape()) : input.shape()});
    try {
      return reader.op->infer_shapes(InferContext(reader, std::move(types))) ==
             std::vector{reader.outputs[0].shape};
    } catch (...) {  // a rule refuses shapes by throwing; custom ops throw anything
      return false;
    }
  }
  bool comes_broadcast(const Output& value) const {
    const Node& node = graph_.node(value.node);
    return large_.count(node.id) || is_cut(node);
  }

  void replace(const Node& node, std::map<Output, Output, OutputOrder>& instead) {
    const auto value = [&](int32_t id, size_t index) {
      return Output{&graph_, id, static_cast<int32_t>(index)};
    };
    const int32_t id = node.id;
    const Output small = small_value(node);
    instead[value(id, 0)] = small;
    for (int32_t cut : readers_[static_cast<size_t>(id)]) {
      if (!is_cut_of(graph_.node(cut), node)) continue;
      const auto axis = static_cast<size_t>(axis_of(graph_.node(cut)));
      int64_t from = 0;
      for (size_t i = 0; i < graph_.node(cut).outputs.size(); ++i) {
        const Shape all = small.shape();
        std::vector<int64_t> begin(static_cast<size_t>(all.ndim())), size(all.begin(), all.end());
        begin[axis] = from;
        size[axis] = graph_.node(cut).outputs[i].shape[static_cast<int>(axis)];
        from += size[axis];
        instead[value(cut, i)] =
            add_part(call_, graph_.node(cut), slice_node(small, std::move(begin), std::move(size)),
                     detail::concat("part", i));
      }
    }
  }

  // The value before the broadcast; a single element if all elements are equal.
  Output small_value(const Node& node) {
    const Shape all = node.outputs[0].shape, shape = small_shape(node, all);
    Output small = node.inputs[0];
    if (small.shape() != shape) small = add_part(call_, node, reshape_node(small, shape), "small");
    if (!properties_of(node).arrangement.repeated(node).shares) return small;
    const auto product = [&]<class T>(T one) {  // in the dtype of the shares, as in the op
      for (int d = 0; d < all.ndim(); ++d)
        if (shape[d] != all[d]) one *= static_cast<T>(all[d]);
      return Tensor::scalar<T>(one);
    };
    const Tensor count = small.dtype() == DType::f32 ? product(1.0f) : product(1.0);
    const Output by = add_part(call_, node, constant_node(count), "count");
    return add_part(call_, node, divide_node(small, by), "share");
  }

  CallGraph& call_;
  Graph& graph_;
  const std::vector<NodeRoles> roles_;
  std::vector<std::vector<int32_t>> readers_;  // by node: each once
  std::set<int32_t> large_;                    // nodes that is_broadcast()
};

}  // namespace

Rewritten defer_broadcast(CallGraph call) {
  Edits edits = DeferBroadcast(call).run();
  return std::move(edits).apply(std::move(call));
}

}  // namespace troupe

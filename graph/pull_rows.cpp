// pull_rows: of a parameter that nothing but gathers on hosts read, these pull the rows that they
// want, and nobody holds the rest. What ran after the parameter runs after all of them.
//
// And of a gradient by rows that a sum's gradient repeats for all that it took together, as that of
// a sum of gathered rows is, every row is pushed once, for all the indices in a row that it belongs
// to.
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "graph/passes.hpp"
#include "graph/reduced_axes.hpp"
#include "troupe/device_name.hpp"
#include "troupe/op.hpp"

namespace troupe {
namespace {

struct Uses {  // of one parameter
  std::vector<int32_t> gathers, after;
  bool others = false;
};

// What a gradient by rows repeats.
struct Repeated {
  Output rows;
  int64_t times = 0, row_size = 0;
};

// Elements in dimensions [begin, end), or -1 if that is not known, or 0.
int64_t known_size(const Shape& shape, int begin, int end) {
  int64_t n = 1;
  for (int d = begin; d < end; ++d) {
    if (shape[d] < 1) return -1;
    n *= shape[d];
  }
  return n;
}

class PullRows {
 public:
  explicit PullRows(const CallGraph& call)
      : graph_(*call.graph), roles_(roles_of(call)), edits_(call) {}

  Edits run() && {
    const Op* rows = graph_.registry().find("ParameterRows");
    if (!rows) return std::move(edits_);
    for (const auto& node : graph_.nodes()) note(*node);
    for (const auto& [id, uses] : uses_)
      if (!uses.others && !uses.gathers.empty()) change(graph_.node(id), uses, *rows);
    for (const auto& node : graph_.nodes())
      if (node->op->name == "PushRowGradient") push_once(*node);
    return std::move(edits_);
  }

 private:
  bool is_parameter(int32_t id) const { return graph_.node(id).op->name == "Parameter"; }
  const NodeRoles& role(int32_t id) const { return roles_[static_cast<size_t>(id)]; }

  bool takes_rows(const Node& node) const {
    return node.op->name == "Gather" && role(node.id).runs && !role(node.id).fed &&
           node.frame < 0 && !is_parameter(node.inputs[1].node) &&
           parse_device_name(node.device).kind.value_or(DeviceKind::cpu) == DeviceKind::cpu;
  }

  void note(const Node& node) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const int32_t from = node.inputs[i].node;
      if (!is_parameter(from)) continue;
      if (i == 0 && takes_rows(node))
        uses_[from].gathers.push_back(node.id);
      else
        uses_[from].others = true;
    }
    for (const int32_t before : node.control_inputs)
      if (is_parameter(before)) uses_[before].after.push_back(node.id);
  }

  void change(const Node& parameter, const Uses& uses, const Op& rows) {
    const NodeRoles& mine = role(parameter.id);
    if (mine.fetched || mine.fed || mine.partner || !parameter.control_inputs.empty()) return;
    for (const int32_t id : uses.after)
      if (id < uses.gathers.back()) return;  // a gather may read what comes after it
    Attrs attrs = parameter.attrs;
    attrs.erase("initial");
    for (const int32_t id : uses.gathers) {
      const Node& gather = graph_.node(id);
      edits_.change(gather, rows, {gather.inputs[1]}, attrs);
    }
    for (const int32_t id : uses.after)
      edits_.run_after(graph_.node(id), parameter.id, uses.gathers);
  }

  void push_once(const Node& push) {
    if (push.attr<int64_t>("indices_per_row") != 1) return;
    const std::optional<Repeated> repeated = repeated_in(push.inputs[1], push.frame);
    if (!repeated) return;
    Attrs attrs = push.attrs;
    attrs["indices_per_row"] = repeated->times;
    attrs["row_size"] = repeated->row_size;
    edits_.change(push, *push.op, {push.inputs[0], repeated->rows}, std::move(attrs));
  }

  // Of `values`, [n, row...].
  std::optional<Repeated> repeated_in(const Output& values, int32_t frame) const {
    const int64_t row = known_size(values.shape(), 1, values.shape().ndim());
    const Node* node = &graph_.node(values.node);
    const auto passes = [&] {  // nothing is lost if the push does not read it
      return !role(node->id).fed && node->frame == frame && node->control_inputs.empty();
    };
    while (node->op->name == "Reshape" && passes()) node = &graph_.node(node->inputs[0].node);
    if (node->op->name != "ReduceGradient" || !passes() || node->attr<bool>("mean")) return {};
    const Shape& all = node->outputs[0].shape;
    std::set<int> axes;
    for (int d = 0; d < all.ndim(); ++d)
      if (names_axis(*node, all.ndim(), d)) axes.insert(d);
    if (row < 1 || axes.empty()) return {};
    const int begin = *axes.begin(), end = *axes.rbegin() + 1;
    const int64_t times = known_size(all, begin, end);
    const bool behind_each_other = end - begin == static_cast<int>(axes.size());
    if (!behind_each_other || times < 2 || known_size(all, end, all.ndim()) != row) return {};
    return Repeated{node->inputs[0], times, row};
  }

  const Graph& graph_;
  const std::vector<NodeRoles> roles_;
  Edits edits_;
  std::map<int32_t, Uses> uses_;
};

}  // namespace

Edits pull_rows(const CallGraph& call) { return PullRows(call).run(); }

}  // namespace troupe

// pull_rows: if only gathers on hosts read a parameter, each gather pulls the rows that it needs,
// and no process holds the rest. Nodes that ran after the parameter run after all of these pulls.
#include <map>
#include <vector>

#include "graph/parameter_nodes.hpp"
#include "placement/passes/on_cpu.hpp"
#include "placement/passes/passes.hpp"
#include "troupe/op.hpp"

namespace troupe {
namespace {

struct Uses {  // of one parameter
  std::vector<int32_t> gathers, after;
  bool others = false;
};

class PullRows {
 public:
  explicit PullRows(const CallGraph& call)
      : graph_(*call.graph), roles_(roles_of(call)), edits_(call) {}

  Edits run() && {
    for (const auto& node : graph_.nodes()) note(*node);
    for (const auto& [id, uses] : uses_)
      if (!uses.others && !uses.gathers.empty()) change(graph_.node(id), uses);
    return std::move(edits_);
  }

 private:
  bool is_parameter(int32_t id) const { return reads_parameter(graph_.node(id)); }
  const NodeRoles& role(int32_t id) const { return roles_[static_cast<size_t>(id)]; }

  bool takes_rows(const Node& node) const {
    return properties_of(node).arrangement.rows == Arrangement::Rows::taken && role(node.id).runs &&
           !role(node.id).fed && node.frame < 0 && !is_parameter(node.inputs[1].node) &&
           is_on_cpu(node);
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

  void change(const Node& parameter, const Uses& uses) {
    const NodeRoles& mine = role(parameter.id);
    if (mine.fetched || mine.fed || mine.partner || !parameter.control_inputs.empty()) return;
    for (const int32_t id : uses.after)
      if (id < uses.gathers.back()) return;  // a gather may read a value that comes after the node
    for (const int32_t id : uses.gathers) {
      const Node& gather = graph_.node(id);
      NodeSpec rows = properties_of(parameter).parameter.rows(parameter, gather.inputs[1]);
      const Op* op = graph_.registry().find(rows.op);
      if (!op) return;  // the program has chosen its ops itself
      edits_.change(gather, *op, std::move(rows.inputs), std::move(rows.attrs));
    }
    for (const int32_t id : uses.after)
      edits_.run_after(graph_.node(id), parameter.id, uses.gathers);
  }

  const Graph& graph_;
  const std::vector<NodeRoles> roles_;
  Edits edits_;
  std::map<int32_t, Uses> uses_;
};

}  // namespace

Edits pull_rows(const CallGraph& call) { return PullRows(call).run(); }

}  // namespace troupe

// ONNX's ops in terms of Troupe's functions: a table with one row for each op. A row either builds
// the node with public functions or gives the reason why there is no counterpart.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/conformance/model.hpp"
#include "tests/support/evaluate.hpp"
#include "troupe/ops.hpp"

namespace troupe {

// The outputs for the value names of a model.
using Names = std::map<std::string, Output>;

// One node of a model, with the outputs for its inputs. Values that ONNX computes at run time and
// Troupe needs while building (a shape, an axis) are computed at once from the case's feeds.
class NodeCall {
 public:
  NodeCall(Graph& graph, const onnx::Node& node, int64_t opset, const Names& names,
           const FedValues& feeds)
      : graph(graph), node(node), opset(opset), names_(names), feeds_(feeds) {}

  Graph& graph;
  const onnx::Node& node;
  const int64_t opset;  // the version of ONNX's ops that the model uses

  int input_count() const { return node.input_size(); }
  bool has_input(int i) const { return i < node.input_size() && !node.input(i).empty(); }
  Output input(int i) const;  // Throws: NotCovered if the node leaves it out.
  std::vector<Output> inputs() const;
  Output named(const std::string& name) const;

  bool has_attr(std::string_view name) const { return find(name) != nullptr; }
  int64_t integer(std::string_view name, int64_t otherwise) const;
  double real(std::string_view name, double otherwise) const;
  std::string text(std::string_view name, std::string_view otherwise) const;
  std::vector<int64_t> integers(std::string_view name) const;  // {} if left out
  const onnx::Attribute* find(std::string_view name) const;    // nullptr if left out

  // True if the value can be computed now, that is, does not depend on a branch or an iteration.
  bool is_fixed(Output output) const;
  // Values computed now. All throw: NotCovered if that is impossible.
  Tensor value(Output output) const;
  std::vector<int64_t> integers(Output output) const;
  double number(Output output) const;  // for one element
  Shape shape(Output output) const;    // known
  // The attribute in older versions, the input in newer ones; {} if neither exists.
  std::vector<int64_t> integers(std::string_view name, int input_index) const;

  // The graph in an attribute of the node, for a branch or a loop.
  const onnx::Graph& body(std::string_view name) const;
  // Adds the nodes of such a body with these values for its inputs, and returns its outputs. The
  // body sees the names of the surrounding graph.
  std::vector<Output> build(const onnx::Graph& body, const std::vector<Output>& inputs) const;

 private:
  const Names& names_;
  const FedValues& feeds_;
};

// The constants and the nodes of a model's graph, or of a body. Throws: NotCovered.
void add_initializers(Graph& graph, const onnx::Graph& model, Names& names);
void add_nodes(Graph& graph, const onnx::Graph& model, int64_t opset, const FedValues& feeds,
               Names& names);

struct MappedOp {
  std::string op;  // ONNX's name
  std::string by;  // Troupe's functions for it; the reason if `map` is empty
  std::function<std::vector<Output>(const NodeCall&)> map = {};
};

// The table, sorted by name, from the lists below.
const std::vector<MappedOp>& mapped_ops();
const MappedOp* find_mapped_op(const std::string& op);

std::vector<MappedOp> elementwise_rows();
std::vector<MappedOp> array_rows();
std::vector<MappedOp> image_rows();
std::vector<MappedOp> index_rows();
std::vector<MappedOp> reduction_rows();
std::vector<MappedOp> recurrent_rows();
std::vector<MappedOp> network_rows();
std::vector<MappedOp> loss_rows();
std::vector<MappedOp> quantized_rows();
std::vector<MappedOp> control_rows();
std::vector<MappedOp> signal_rows();
std::vector<MappedOp> absent_rows();

// ---- shared by several rows ----

inline int64_t axis_of(int64_t axis, int64_t ndim) { return axis < 0 ? axis + ndim : axis; }
Output number_like(Output x, double value);  // a scalar of x's dtype
Output integer_constant(Graph& graph, const std::vector<int64_t>& values);
Output moved_axis(Output x, int64_t from, int64_t to);
Output channels_last(Output x);   // [n, c, rest...] -> [n, rest..., c]
Output channels_first(Output x);  // and back
// Negative indices count from the end of a dimension of that size.
Output from_start(Output indices, int64_t size);
// `values`, or `count` ones if it is empty.
std::vector<int64_t> or_ones(std::vector<int64_t> values, size_t count);

}  // namespace troupe

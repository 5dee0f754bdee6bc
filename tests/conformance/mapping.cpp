// Builds the table of ONNX's ops, and holds the functions that its rows share.
#include "tests/conformance/mapping.hpp"

#include <algorithm>
#include <numeric>

namespace troupe {

Output NodeCall::input(int i) const {
  if (!has_input(i)) throw NotCovered{detail::concat("without input ", i)};
  return named(node.input(i));
}

std::vector<Output> NodeCall::inputs() const {
  std::vector<Output> all;
  for (int i = 0; i < input_count(); ++i) all.push_back(input(i));
  return all;
}

Output NodeCall::named(const std::string& name) const {
  const auto it = names_.find(name);
  if (it == names_.end()) throw Error(Errc::bad_data, "the model has no value \"", name, "\"");
  return it->second;
}

const onnx::Attribute* NodeCall::find(std::string_view name) const {
  for (const onnx::Attribute& attribute : node.attribute())
    if (attribute.name() == name) return &attribute;
  return nullptr;
}

int64_t NodeCall::integer(std::string_view name, int64_t otherwise) const {
  const onnx::Attribute* found = find(name);
  return found ? found->i() : otherwise;
}

double NodeCall::real(std::string_view name, double otherwise) const {
  const onnx::Attribute* found = find(name);
  return found ? found->f() : otherwise;
}

std::string NodeCall::text(std::string_view name, std::string_view otherwise) const {
  const onnx::Attribute* found = find(name);
  return found ? found->s() : std::string(otherwise);
}

std::vector<int64_t> NodeCall::integers(std::string_view name) const {
  const onnx::Attribute* found = find(name);
  if (!found) return {};
  return {found->ints().begin(), found->ints().end()};
}

// A constant in a body counts as fixed, although it is in the body's frame.
bool NodeCall::is_fixed(Output output) const {
  const Node& from = graph.node(output.node);
  return from.frame < 0 || from.op->name == "Constant";
}

Tensor NodeCall::value(Output output) const {
  if (!is_fixed(output)) throw NotCovered{"a value that only a branch or an iteration knows"};
  const Node& from = graph.node(output.node);
  return from.op->name == "Constant" ? from.attr<Tensor>("value") : evaluate(output, feeds_);
}

std::vector<int64_t> NodeCall::integers(Output output) const {
  const Tensor x = value(output);
  std::vector<int64_t> values;
  with_type(x.dtype(), [&]<class T>(T) {
    for (const T one : x.values<T>()) values.push_back(static_cast<int64_t>(one));
  });
  return values;
}

double NodeCall::number(Output output) const {
  const Tensor x = value(output);
  if (x.size() != 1) throw NotCovered{"several numbers where one is expected"};
  double number = 0;
  with_type(x.dtype(), [&]<class T>(T) { number = static_cast<double>(*x.data<T>()); });
  return number;
}

Shape NodeCall::shape(Output output) const {
  return output.shape().is_known() ? output.shape() : value(output).shape();
}

std::vector<int64_t> NodeCall::integers(std::string_view name, int input_index) const {
  return has_input(input_index) ? integers(input(input_index)) : integers(name);
}

const onnx::Graph& NodeCall::body(std::string_view name) const {
  const onnx::Attribute* found = find(name);
  if (!found || !found->has_g())
    throw Error(Errc::bad_data, "a node ", node.op_type(), " has no graph \"", name, "\"");
  return found->g();
}

std::vector<Output> NodeCall::build(const onnx::Graph& body,
                                    const std::vector<Output>& inputs) const {
  if (static_cast<size_t>(body.input_size()) != inputs.size())
    throw Error(Errc::bad_data, "the body of a node ", node.op_type(), " has ", body.input_size(),
                " inputs, but gets ", inputs.size());
  Names names = names_;
  add_initializers(graph, body, names);
  for (size_t i = 0; i < inputs.size(); ++i)
    names[body.input(static_cast<int>(i)).name()] = inputs[i];
  add_nodes(graph, body, opset, feeds_, names);
  std::vector<Output> outputs;
  for (const onnx::Value& value : body.output()) {
    const auto it = names.find(value.name());
    if (it == names.end()) throw Error(Errc::bad_data, "a body has no value ", value.name());
    outputs.push_back(it->second);
  }
  return outputs;
}

void add_initializers(Graph& graph, const onnx::Graph& model, Names& names) {
  for (const onnx::Tensor& tensor : model.initializer())
    names[tensor.name()] = constant(graph, tensor_of_onnx(tensor));
}

void add_nodes(Graph& graph, const onnx::Graph& model, int64_t opset, const FedValues& feeds,
               Names& names) {
  for (const onnx::Node& node : model.node()) {
    const MappedOp* row = find_mapped_op(node.op_type());
    if (!row) throw NotCovered{node.op_type() + " has no row in the mapping"};
    if (!row->map) throw NotCovered{row->by};
    const std::vector<Output> outputs = row->map(NodeCall(graph, node, opset, names, feeds));
    for (int i = 0; i < node.output_size(); ++i) {
      if (node.output(i).empty()) continue;
      if (static_cast<size_t>(i) >= outputs.size())
        throw NotCovered{
            detail::concat(node.op_type(), " without output ", i, ", ", node.output(i))};
      names[node.output(i)] = outputs[static_cast<size_t>(i)];
    }
  }
}

const std::vector<MappedOp>& mapped_ops() {
  static const std::vector<MappedOp> table = [] {
    std::vector<MappedOp> rows;
    for (const auto& part : {elementwise_rows(), array_rows(), image_rows(), index_rows(),
                             reduction_rows(), network_rows(), recurrent_rows(), loss_rows(),
                             quantized_rows(), control_rows(), signal_rows(), absent_rows()})
      rows.insert(rows.end(), part.begin(), part.end());
    std::sort(rows.begin(), rows.end(),
              [](const MappedOp& a, const MappedOp& b) { return a.op < b.op; });
    return rows;
  }();
  return table;
}

const MappedOp* find_mapped_op(const std::string& op) {
  for (const MappedOp& row : mapped_ops())
    if (row.op == op) return &row;
  return nullptr;
}

Output number_like(Output x, double value) { return fill(*x.graph, {}, value, x.dtype()); }

Output integer_constant(Graph& graph, const std::vector<int64_t>& values) {
  return constant(
      graph, Tensor::of(std::span<const int64_t>(values), {static_cast<int64_t>(values.size())}));
}

Output moved_axis(Output x, int64_t from, int64_t to) {
  if (from == to) return x;
  std::vector<int64_t> order(static_cast<size_t>(x.shape().ndim()));
  std::iota(order.begin(), order.end(), 0);
  order.erase(order.begin() + from);
  order.insert(order.begin() + to, from);
  return transpose(x, order);
}

Output channels_last(Output x) { return moved_axis(x, 1, x.shape().ndim() - 1); }

Output channels_first(Output x) { return moved_axis(x, x.shape().ndim() - 1, 1); }

Output from_start(Output indices, int64_t size) {
  return where(less(indices, number_like(indices, 0)), indices + static_cast<double>(size),
               indices);
}

std::vector<int64_t> or_ones(std::vector<int64_t> values, size_t count) {
  return values.empty() ? std::vector<int64_t>(count, 1) : values;
}

}  // namespace troupe

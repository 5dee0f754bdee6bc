// Builds, runs and compares one case.
#include "tests/conformance/run_case.hpp"

#include <cmath>
#include <map>
#include <set>

#include "tests/conformance/mapping.hpp"

namespace troupe {
namespace {

using Names = std::map<std::string, Output>;

void want_tensor(const onnx::Value& value) {
  if (!value.type().has_tensor_type())
    throw NotCovered{"no values but tensors (sequences, optional values)"};
  dtype_of_onnx(value.type().tensor_type().elem_type());
}

int64_t opset_of(const onnx::Model& model) {
  for (const onnx::OperatorSet& set : model.opset_import())
    if (set.domain().empty()) return set.version();
  return 1;
}

void add_node(Graph& graph, const onnx::Node& node, int64_t opset, const FedValues& feeds,
              Names& names) {
  const MappedOp* row = find_mapped_op(node.op_type());
  if (!row) throw NotCovered{node.op_type() + " has no row in the mapping"};
  if (!row->map) throw NotCovered{row->by};
  const std::vector<Output> outputs = row->map(NodeCall(graph, node, opset, names, feeds));
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty()) continue;
    if (static_cast<size_t>(i) >= outputs.size())
      throw NotCovered{detail::concat(node.op_type(), " without output ", i, ", ", node.output(i))};
    names[node.output(i)] = outputs[static_cast<size_t>(i)];
  }
}

// Elements that differ: how many, and the first.
template <class T, class Same>
std::string compare(const Tensor& got, const Tensor& want, const Same& same) {
  const auto a = got.values<T>(), b = want.values<T>();
  int64_t bad = 0;
  std::string first;
  for (size_t i = 0; i < a.size(); ++i) {
    if (same(a[i], b[i])) continue;
    if (bad++ == 0) first = detail::concat("element ", i, " is ", +a[i], ", not ", +b[i]);
  }
  if (bad == 0) return "";
  return detail::concat(bad, " of ", a.size(), " elements differ; ", first);
}

}  // namespace

const char* to_string(Outcome outcome) {
  return outcome == Outcome::passed   ? "passed"
         : outcome == Outcome::failed ? "failed"
                                      : "not covered";
}

std::string difference(const Tensor& got, const Tensor& want, double rtol, double atol) {
  if (got.dtype() != want.dtype() || got.shape() != want.shape())
    return detail::concat("it is ", TensorType{got.dtype(), got.shape()}, ", not ",
                          TensorType{want.dtype(), want.shape()});
  std::string text;
  with_type(want.dtype(), [&](auto zero) {
    using T = decltype(zero);
    text = compare<T>(got, want, [=](T a, T b) {
      if constexpr (!std::is_floating_point_v<T>)
        return a == b;
      else
        return a == b || (std::isnan(a) && std::isnan(b)) ||
               (std::isfinite(b) &&
                std::abs(double{a} - double{b}) <= atol + rtol * std::abs(double{b}));
    });
  });
  return text;
}

// The model's values for one set of inputs.
std::vector<Tensor> CaseRunner::run_model(const onnx::Model& model,
                                          const std::vector<Tensor>& inputs) {
  Names names;
  FedValues feeds;
  Feeds fed;
  for (const onnx::Tensor& tensor : model.graph().initializer())
    names[tensor.name()] = constant(graph_, tensor_of_onnx(tensor));
  size_t next = 0;
  for (const onnx::Value& value : model.graph().input()) {
    if (next == inputs.size()) break;
    if (names.count(value.name())) continue;  // older files list initializers here, too
    const Tensor& x = inputs[next++];
    const Output in = placeholder(graph_, x.dtype(), x.shape());
    names[value.name()] = in;
    feeds.insert({in, x});
    fed.emplace_back(in, x);
  }
  for (const onnx::Node& node : model.graph().node())
    add_node(graph_, node, opset_of(model), feeds, names);
  std::vector<Output> fetches;
  std::set<Output> fetched;
  for (const onnx::Value& value : model.graph().output()) {
    const Output out = names.at(value.name());
    fetches.push_back(feeds.count(out) || !fetched.insert(out).second ? identity(out) : out);
  }
  return session_.run(fetches, fed);
}

std::string CaseRunner::check_set(const onnx::Model& model, const std::string& set) {
  const auto inputs = read_tensors(set, "input", model.graph().input_size());
  const auto wanted = read_tensors(set, "output", model.graph().output_size());
  const auto got = run_model(model, inputs);
  for (size_t i = 0; i < wanted.size(); ++i)
    if (const std::string text = difference(got[i], wanted[i]); !text.empty())
      return detail::concat("output ", i, ": ", text);
  return "";
}

void CaseRunner::check(const OnnxCase& test, CaseResult& result) {
  const onnx::Model model = read_model(test);
  if (model.graph().node_size() == 1) result.op = model.graph().node(0).op_type();
  // An op that there is none of says more than the types that it takes.
  for (const onnx::Node& node : model.graph().node())
    if (const MappedOp* row = find_mapped_op(node.op_type()); row && !row->map)
      throw NotCovered{row->by};
  for (const onnx::Value& value : model.graph().input()) want_tensor(value);
  for (const onnx::Value& value : model.graph().output()) want_tensor(value);
  const auto sets = sets_of(test);
  if (sets.empty()) throw NotCovered{"no set of inputs and outputs"};
  for (const std::string& set : sets) {
    result.text = check_set(model, set);
    if (result.text.empty()) continue;
    result.outcome = Outcome::failed;
    return;
  }
}

CaseResult CaseRunner::run(const OnnxCase& test) {
  CaseResult result{.name = test.name};
  try {
    check(test, result);
  } catch (const NotCovered& absent) {
    result.outcome = Outcome::not_covered;
    result.text = absent.reason;
  } catch (const std::exception& error) {
    result.outcome = Outcome::failed;
    result.text = error.what();
  }
  return result;
}

}  // namespace troupe

// Builds, runs and compares one case.
#include "tests/conformance/run_case.hpp"

#include <cmath>
#include <set>
#include <type_traits>

#include "tests/conformance/mapping.hpp"

namespace troupe {
namespace {

int64_t opset_of(const onnx::Model& model) {
  for (const onnx::OperatorSet& set : model.opset_import())
    if (set.domain().empty()) return set.version();
  return 1;
}

// Reports a missing op before the types it takes, since it is the better reason.
void want_rows(const onnx::Graph& graph) {
  for (const onnx::Node& node : graph.node()) {
    if (const MappedOp* row = find_mapped_op(node.op_type()); row && !row->map)
      throw NotCovered{row->by};
    for (const onnx::Attribute& attribute : node.attribute())
      if (attribute.has_g()) want_rows(attribute.g());
  }
}

void want_tensors(const onnx::Graph& graph) {
  for (const onnx::Value& value : graph.input()) want_tensor(value);
  for (const onnx::Value& value : graph.output()) want_tensor(value);
  for (const onnx::Node& node : graph.node())
    for (const onnx::Attribute& attribute : node.attribute())
      if (attribute.has_g()) want_tensors(attribute.g());
}

// Returns an element as a number, since 8-bit ones would print as letters.
template <class T>
auto printed(T element) {
  if constexpr (std::is_arithmetic_v<T>)
    return +element;
  else
    return static_cast<float>(element);
}

// Describes the elements that differ: their number, and the first one.
template <class T, class Same>
std::string compare(const Tensor& got, const Tensor& want, const Same& same) {
  const auto a = got.values<T>(), b = want.values<T>();
  int64_t bad = 0;
  std::string first;
  for (size_t i = 0; i < a.size(); ++i) {
    if (same(a[i], b[i])) continue;
    if (bad++ == 0)
      first = detail::concat("element ", i, " is ", printed(a[i]), ", not ", printed(b[i]));
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

std::string onnx_difference(const Tensor& got, const Tensor& want, double rtol, double atol) {
  if (got.dtype() != want.dtype() || got.shape() != want.shape())
    return detail::concat("it is ", TensorType{got.dtype(), got.shape()}, ", not ",
                          TensorType{want.dtype(), want.shape()});
  std::string text;
  with_type(want.dtype(), [&](auto zero) {
    using T = decltype(zero);
    text = compare<T>(got, want, [=](T got_one, T want_one) {
      if constexpr (std::is_integral_v<T>) return got_one == want_one;
      const auto a = static_cast<double>(got_one), b = static_cast<double>(want_one);
      return a == b || (std::isnan(a) && std::isnan(b)) ||
             (std::isfinite(b) && std::abs(a - b) <= atol + rtol * std::abs(b));
    });
  });
  return text;
}

// The model's results for one set of inputs.
std::vector<Tensor> CaseRunner::run_model(const onnx::Model& model,
                                          const std::vector<Tensor>& inputs) {
  Names names;
  FedValues feeds;
  Feeds fed;
  add_initializers(graph_, model.graph(), names);
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
  add_nodes(graph_, model.graph(), opset_of(model), feeds, names);
  std::vector<Output> fetches;
  std::set<Output, OutputOrder> fetched;
  for (const onnx::Value& value : model.graph().output()) {
    const Output out = names.at(value.name());
    fetches.push_back(feeds.count(out) || !fetched.insert(out).second ? identity(out) : out);
  }
  return session_.run(fetches, fed);
}

std::string CaseRunner::check_set(const onnx::Model& model, const std::string& set) {
  const auto inputs = read_tensors(set, "input", model.graph().input());
  const auto wanted = read_tensors(set, "output", model.graph().output());
  const auto got = run_model(model, inputs);
  for (size_t i = 0; i < wanted.size(); ++i)
    if (const std::string text = onnx_difference(got[i], wanted[i]); !text.empty())
      return detail::concat("output ", i, ": ", text);
  return "";
}

void CaseRunner::check(const OnnxCase& test, CaseResult& result) {
  const onnx::Model model = read_model(test);
  if (model.graph().node_size() == 1) result.op = model.graph().node(0).op_type();
  want_rows(model.graph());
  want_tensors(model.graph());
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

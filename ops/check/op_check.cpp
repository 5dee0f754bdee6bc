// check_op() and its parts (troupe/custom_op.hpp). Graphs are evaluated kernel by kernel, so that
// only the op can be wrong; then again on every available accelerator.
#include "ops/check/op_check.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>

#include "devices/run_context.hpp"
#include "graph/op.hpp"
#include "ops/check/evaluate.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

constexpr double kStep = 1e-4;  // of central differences: errors of about 1e-8 and 1e-12
// relative to the value, for values beside which kStep would be lost
constexpr double kStepOfLarge = 1e-9;
constexpr int64_t kTwiceSizeMax =
    200;  // elements; second differences evaluate the gradient twice for each element

using Ops = std::shared_ptr<const Registry>;

// The findings, each with its context: the phrases of all open Within objects.
class Findings {
 public:
  template <class... Parts>
  void say(const Parts&... parts) {
    std::string text;
    for (const std::string& part : where_) text += part + ", ";
    if (!text.empty()) text.replace(text.size() - 2, 2, ": ");
    list_.push_back(text + detail::concat(parts...));
  }
  class Within {
   public:
    template <class... Parts>
    explicit Within(Findings& findings, const Parts&... parts) : findings_(findings) {
      findings_.where_.push_back(detail::concat(parts...));
    }
    ~Within() {
      if (std::uncaught_exceptions() > before_ && findings_.thrown_at_.empty())
        findings_.thrown_at_ = findings_.where_;
      findings_.where_.pop_back();
    }
    Within(const Within&) = delete;

   private:
    Findings& findings_;
    const int before_ = std::uncaught_exceptions();
  };
  // An exception of `work` becomes one more finding.
  template <class F>
  void guard(F&& work) {
    thrown_at_.clear();
    try {
      work();
    } catch (const std::exception& e) {
      const std::vector<std::string> here = where_;
      if (!thrown_at_.empty()) where_ = std::move(thrown_at_);
      say("threw: ", e.what());
      where_ = here;
    }
  }
  std::vector<std::string> take() { return std::move(list_); }

 private:
  std::vector<std::string> where_, thrown_at_, list_;
};
using Within = Findings::Within;

const char* known_text(bool known) { return known ? "shapes known" : "shapes not known"; }

template <class Case>
std::string name_of(const Case& c) {
  if constexpr (requires { c.name; })
    return c.name.empty() ? c.op : c.op + " \"" + c.name + "\"";
  else
    return c.op + " refusing \"" + c.message + "\"";
}

Tensor copy_of(const Tensor& tensor) {
  Tensor copy = Tensor::empty(tensor.dtype(), tensor.shape());
  if (tensor.byte_size() > 0)
    std::memcpy(copy.mutable_raw(), tensor.raw(), static_cast<size_t>(tensor.byte_size()));
  return copy;
}

// One case as a graph: a placeholder for each input.
struct Built {
  explicit Built(const Ops& ops) : graph(std::make_unique<Graph>(ops)) {}
  std::unique_ptr<Graph> graph;
  std::vector<Output> inputs;
  std::vector<Output> outputs;
  FedValues feeds;

  Output feed(const Tensor& value, bool known) {
    Shape shape = value.shape();
    for (int i = 0; i < shape.ndim() && !known; ++i) shape.set(i, -1);
    const Output input = placeholder(*graph, value.dtype(), shape);
    feeds.insert_or_assign(input, value);
    return input;
  }
  std::vector<Tensor> run(const std::vector<Output>& wanted) const {
    return evaluate(*graph, wanted, feeds);
  }
  std::vector<Tensor> run_on(Device& device, const std::vector<Output>& wanted) const {
    return evaluate_on(device, *graph, wanted, feeds);
  }
};

template <class Case>
Built built(const Case& c, const Ops& ops, const std::vector<Tensor>& inputs, bool known) {
  Built b(ops);
  for (const Tensor& input : inputs) b.inputs.push_back(b.feed(input, known));
  if (c.build) {
    b.outputs = c.build(*b.graph, b.inputs);
    return b;
  }
  const Output first = b.graph->add({.op = c.op, .inputs = b.inputs, .attrs = c.attrs});
  const size_t count = b.graph->node(first.node).outputs.size();
  for (size_t i = 0; i < count; ++i)
    b.outputs.push_back({b.graph.get(), first.node, static_cast<int32_t>(i)});
  return b;
}

// The case in another dtype: `from` becomes `to` everywhere. Nothing if a value does not fit.
std::optional<OpCase> with_dtype(OpCase c, DType from, DType to) {
  for (auto* tensors : {&c.inputs, &c.expected})
    for (Tensor& tensor : *tensors) {
      if (tensor.dtype() != from) continue;
      if (!holds(to, tensor)) return {};
      tensor = converted(tensor, to);
    }
  return c;
}

// The f32 results of the case, rounded to a 16-bit dtype, for inputs that this dtype holds. They
// are the expected results of the 16-bit kernels, which compute in f32; the table's own results
// belong to unrounded inputs. Nothing if the op refuses these inputs.
std::optional<std::vector<Tensor>> rounded_expectation(const OpCase& c, const Ops& ops,
                                                       DType half) {
  std::vector<Tensor> inputs = c.inputs;
  for (Tensor& input : inputs)
    if (input.dtype() == half) input = converted(input, DType::f32);
  try {
    const Built b = built(c, ops, inputs, true);
    std::vector<Tensor> outputs = b.run(b.outputs);
    for (Tensor& y : outputs)
      if (y.dtype() == DType::f32) y = converted(y, half);
    return outputs;
  } catch (const Error&) {
    return {};
  }
}

std::vector<OpCase> in_all_dtypes(const OpCase& c, const Op& op, const Ops& ops) {
  if (c.as_written || op.dispatch < 0 || c.inputs.empty()) return {c};
  const DType from = c.inputs[static_cast<size_t>(op.dispatch)].dtype();
  std::vector<OpCase> cases;
  for (DType to : kDTypes) {
    const auto fits = [&](const Kernel& k) {
      return k.device == DeviceKind::cpu && (k.dtype == to || k.dtype == DType::none);
    };
    if (std::none_of(op.kernels.begin(), op.kernels.end(), fits)) continue;
    auto other = with_dtype(c, from, to);
    if (!other) continue;
    if (is_half(to)) {
      // In a composition, each op rounds, so there is no such expectation.
      const auto expected = c.build ? std::nullopt : rounded_expectation(*other, ops, to);
      if (!expected) continue;
      other->expected = *expected;
    }
    cases.push_back(*std::move(other));
  }
  return cases;
}

void compare(Findings& found, const std::vector<Tensor>& got, const std::vector<Tensor>& expected,
             std::optional<double> tolerance) {
  if (got.size() != expected.size())
    return found.say("it has ", got.size(), " outputs, expected were ", expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    if (const auto other = difference(got[i], expected[i], tolerance))
      found.say("output ", i, ": ", *other);
}

// Checks that the graph gives the CPU's results on every accelerator: with the same bits on the
// shadow device, which runs the same kernels; within the table's tolerance on others.
void compare_on_accelerators(Findings& found, const Built& b, const std::vector<Output>& outputs,
                             const std::vector<Tensor>& expected, std::optional<double> tolerance) {
  for (const auto& device : accelerators()) {
    const Within where(found, "on ", to_string(device->kind()));
    const std::vector<Tensor> got = b.run_on(*device, outputs);
    if (device->kind() != DeviceKind::shadow || got.size() != expected.size()) {
      compare(found, got, expected, tolerance);
      continue;
    }
    for (size_t i = 0; i < got.size(); ++i)
      if (!same_bits(got[i], expected[i]))
        found.say("output ", i, ": ", got[i], " instead of the bits of ", expected[i]);
  }
}

// Runs the node's kernel as an engine does if input 0 has no other reader.
void check_in_place(Findings& found, const Built& b, const OpCase& c) {
  const Within where(found, "in place");
  const Node& node = b.graph->node(b.outputs[0].node);
  const Kernel* kernel = find_kernel(node, DeviceKind::cpu);
  const NodeView view = NodeView::make(node, *kernel);
  std::vector<Tensor> values;
  std::vector<uint32_t> slots;
  for (const Tensor& input : c.inputs) {
    slots.push_back(static_cast<uint32_t>(values.size()));
    values.push_back(copy_of(input));
  }
  std::vector<Tensor> outputs(node.outputs.size());
  HeapMemory memory;
  const RunContext step;
  KernelCall call;
  call.bind(view, values.data(), slots.data(), static_cast<int32_t>(slots.size()), outputs.data(),
            memory, step, /*may_reuse_input0=*/true);
  kernel->run(call);
  compare(found, outputs, c.expected, c.tolerance);
}

// Checks that the inferred types fit the actual ones.
void check_types(Findings& found, const Built& b, const std::vector<Tensor>& got) {
  for (size_t i = 0; i < got.size(); ++i) {
    const Output& output = b.outputs[i];
    if (!output.shape().accepts(got[i].shape()))
      found.say("output ", i, ": its shape was inferred as ", output.shape(), ", but is ",
                got[i].shape());
    if (output.dtype() != got[i].dtype())
      found.say("output ", i, ": its dtype was inferred as ", output.dtype(), ", but is ",
                got[i].dtype());
  }
}

void check_value_as_is(Findings& found, OpCase c, const Ops& ops, const Op& op) {
  for (const bool known : {true, false}) {
    const Within where(found, known_text(known));
    const Built b = built(c, ops, c.inputs, known);
    const std::vector<Tensor> got = b.run(b.outputs);
    if (c.expected.empty()) c.expected = got;
    compare(found, got, c.expected, c.tolerance);
    check_types(found, b, got);
    const std::vector<Tensor> again = b.run(b.outputs);
    for (size_t i = 0; i < got.size(); ++i)
      if (!same_bits(got[i], again[i])) found.say("output ", i, " has other bits the second time");
    // Without a kernel on the accelerator, the op would only have run on the CPU.
    if (!c.build && !b.outputs.empty() && !op.value_shapes &&
        !accelerators()[0]->kernel_for(b.graph->node(b.outputs[0].node)))
      found.say("an accelerator has no kernel for it");
    compare_on_accelerators(found, b, b.outputs, got, c.tolerance);
    if (!c.build && op.in_place) check_in_place(found, b, c);
  }
}

// sum_i weights[i] . values[i]
double weighted(const std::vector<Tensor>& values, const std::vector<Tensor>& weights) {
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto v = to_doubles(values[i]), w = to_doubles(weights[i]);
    for (size_t k = 0; k < v.size(); ++k) sum += v[k] * w[k];
  }
  return sum;
}

// Distinct numbers in [-1, 1].
Tensor weights_like(const Tensor& value, double seed) {
  std::vector<double> list;
  for (int64_t i = 0; i < value.size(); ++i)
    list.push_back(std::sin(1.7 * static_cast<double>(i) + seed));
  return from_doubles(list, value.dtype(), value.shape());
}

// d(sum weights . outputs)/d(x) by central differences, in the shape of x's value.
Tensor differences(const Built& b, const std::vector<Output>& outputs,
                   const std::vector<Tensor>& weights, Output x) {
  const Tensor at = b.feeds.at(x);
  std::vector<double> slopes, values = to_doubles(at);
  FedValues feeds = b.feeds;
  const auto value_at = [&](size_t i, double v) {
    std::vector<double> moved = values;
    moved[i] = v;
    feeds.insert_or_assign(x, from_doubles(moved, at.dtype(), at.shape()));
    return weighted(evaluate(*b.graph, outputs, feeds), weights);
  };
  for (size_t i = 0; i < values.size(); ++i) {
    const double h = std::max(kStep, kStepOfLarge * std::abs(values[i]));
    const double above = values[i] + h, below = values[i] - h;
    slopes.push_back((value_at(i, above) - value_at(i, below)) / (above - below));
  }
  return from_doubles(slopes, at.dtype(), at.shape());
}

// Compares the derivatives of `outputs` by gradients() with differences. Returns the defined
// gradients.
std::vector<Output> check_derivatives(Findings& found, Built& b, const std::vector<Output>& outputs,
                                      const std::vector<Output>& xs, bool known, double seed,
                                      double tolerance) {
  std::vector<Tensor> weights;
  std::vector<Output> weight_inputs;
  for (const Tensor& value : b.run(outputs)) {
    weights.push_back(weights_like(value, seed));
    weight_inputs.push_back(b.feed(weights.back(), known));
  }
  const std::vector<Output> slopes = gradients(outputs, xs, weight_inputs);
  std::vector<Output> out;
  for (size_t i = 0; i < xs.size(); ++i) {
    const Within where(found, "gradient for input ", i);
    const Tensor expected = differences(b, outputs, weights, xs[i]);
    const Tensor got = slopes[i].defined() ? b.run({slopes[i]})[0]
                                           : Tensor::zeros(expected.dtype(), expected.shape());
    if (const auto other = difference(got, expected, tolerance)) found.say(*other);
    if (!slopes[i].defined()) continue;
    compare_on_accelerators(found, b, {slopes[i]}, {got}, tolerance);
    out.push_back(slopes[i]);
  }
  return out;
}

void check_gradient_as_is(Findings& found, const OpCase& c, const Ops& ops,
                          const std::vector<Tensor>& inputs, bool known) {
  const Within where(found, known_text(known));
  Built b = built(c, ops, inputs, known);
  std::vector<Output> xs, ys;
  int64_t size = 0;
  for (const Output& x : b.inputs)
    if (x.dtype() == DType::f64) {
      xs.push_back(x);
      size += b.feeds.at(x).size();
    }
  for (const Output& y : b.outputs)
    if (y.dtype() == DType::f64) ys.push_back(y);
  if (xs.empty() || ys.empty()) return;
  const auto first = check_derivatives(found, b, ys, xs, known, 0.7, c.gradient_tolerance);
  if (first.empty() || !c.twice || size > kTwiceSizeMax) return;
  const Within second(found, "second derivatives");
  check_derivatives(found, b, first, xs, known, 0.2, 10 * c.gradient_tolerance);
}

bool differentiable(const OpCase& c, const Op& op) {
  return c.smooth && op.gradient && op.no_gradient.empty();
}

void check_refused_on(Findings& found, const OpError& e, const Ops& ops, Device* device,
                      bool known) {
  const Within where(found, device ? to_string(device->kind()) : "cpu", ", ", known_text(known));
  try {
    const Built b = built(e, ops, e.inputs, known);
    if (!known || e.when_run) device ? b.run_on(*device, b.outputs) : b.run(b.outputs);
    found.say("nothing was thrown");
  } catch (const Error& error) {
    const std::string text = error.what();
    if (error.code() != Errc::invalid_argument)
      found.say("it was refused as ", to_string(error.code()), ", not as invalid_argument: ", text);
    else if (text.find(e.message) == text.npos)
      found.say("it was refused with another text: ", text);
  }
}

// Checks that the table has every required part.
void check_table(Findings& found, const Op& op, const OpCases& cases) {
  if (op.kernels.empty()) found.say("it has no kernel");
  if (cases.values.empty()) found.say("no case says what it gives");
  if (cases.errors.empty()) found.say("no case says what it refuses");
  if (!op.gradient && op.no_gradient.empty() && !op.outputs.empty())
    found.say("it has no gradient, and no_gradient does not say why");
  const auto tried = [&](const OpCase& c) {
    return differentiable(c, op) &&
           std::any_of(c.inputs.begin(), c.inputs.end(), [](const Tensor& t) {
             return (t.dtype() == DType::f64 || t.dtype() == DType::f32) && t.size() > 0;
           });
  };
  if (op.gradient && op.no_gradient.empty() &&
      std::none_of(cases.values.begin(), cases.values.end(), tried))
    found.say("no smooth case of floating elements tries its gradient");
}

void append(std::vector<std::string>& to, std::vector<std::string> more) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace

std::vector<std::string> check_value_of(const OpCase& c, const Ops& ops) {
  Findings found;
  const Within where(found, name_of(c));
  found.guard([&] {
    const Op& op = ops->get(c.op);
    const std::vector<OpCase> all = in_all_dtypes(c, op, ops);
    if (all.empty()) found.say("no kernel of this op can hold the case");
    for (const OpCase& one : all) {
      const Within dtype(found, one.inputs.empty() ? "no input" : to_string(one.inputs[0].dtype()));
      found.guard([&] { check_value_as_is(found, one, ops, op); });
    }
  });
  return found.take();
}

std::vector<std::string> check_gradient_of(const OpCase& c, const Ops& ops) {
  Findings found;
  const Within where(found, name_of(c));
  found.guard([&] {
    const Op& op = ops->get(c.op);
    if (!differentiable(c, op)) return;
    const auto in_f32 = [](const Kernel& k) { return k.dtype == DType::f32; };
    if (!op.kernels.empty() && std::all_of(op.kernels.begin(), op.kernels.end(), in_f32))
      throw Error(Errc::invalid_argument, op.name,
                  " has no kernel for f64, in which its gradient is compared with differences; add "
                  "one, or say .smooth = false of the case");
    std::vector<Tensor> inputs = c.inputs;
    for (Tensor& input : inputs)
      if (input.dtype() == DType::f32) input = converted(input, DType::f64);
    for (const bool known : {true, false})
      found.guard([&] { check_gradient_as_is(found, c, ops, inputs, known); });
  });
  return found.take();
}

std::vector<std::string> check_refusal_of(const OpError& e, const Ops& ops) {
  Findings found;
  const Within where(found, name_of(e));
  std::vector<Device*> devices = {nullptr};  // the CPU
  for (const auto& device : accelerators()) devices.push_back(device.get());
  for (const bool known : {true, false})
    for (Device* device : devices)
      found.guard([&] { check_refused_on(found, e, ops, device, known); });
  return found.take();
}

std::vector<std::string> check_op(const Op& op, const OpCases& cases) {
  Findings found;
  const auto ops = std::make_shared<Registry>();
  found.guard([&] {
    const Within where(found, op.name);
    for (const Op* built_in : builtin_ops()->all())
      if (built_in->name != op.name) ops->add(*built_in);
    ops->add(op);
    check_table(found, op, cases);
  });
  std::vector<std::string> out = found.take();
  if (!ops->find(op.name)) return out;
  for (OpCase c : cases.values) {
    if (c.op.empty()) c.op = op.name;
    append(out, check_value_of(c, ops));
    append(out, check_gradient_of(c, ops));
  }
  for (OpError e : cases.errors) {
    if (e.op.empty()) e.op = op.name;
    append(out, check_refusal_of(e, ops));
  }
  return out;
}

}  // namespace troupe

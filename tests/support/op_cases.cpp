// Runs tables of op cases. Graphs are evaluated kernel by kernel, so that nothing but the op can be
// wrong; then again on every accelerator there is.
#include "tests/support/op_cases.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace troupe {
namespace {

constexpr double kStep = 1e-4;         // of central differences: errors of about 1e-8 and 1e-12
constexpr double kStepOfLarge = 1e-9;  // of the value, where kStep would be lost beside it
constexpr int64_t kTwiceSizeMax =
    200;  // elements; second differences evaluate the gradient twice for each

constexpr int64_t kAcceleratorBytes = int64_t{1} << 30;

std::vector<double> to_doubles(const Tensor& tensor) {
  std::vector<double> values;
  with_type(tensor.dtype(), [&]<class T>(T) {
    for (T value : tensor.values<T>()) values.push_back(static_cast<double>(value));
  });
  return values;
}

Tensor from_doubles(const std::vector<double>& values, DType dtype, const Shape& shape) {
  Tensor tensor = Tensor::empty(dtype, shape);
  TROUPE_CHECK(tensor.size() == static_cast<int64_t>(values.size()), values.size(),
               " values do not fill ", shape);
  with_type(dtype, [&]<class T>(T) {
    T* to = tensor.mutable_data<T>();
    for (size_t i = 0; i < values.size(); ++i) to[i] = static_cast<T>(values[i]);
  });
  return tensor;
}

bool holds(DType dtype, const Tensor& tensor) {
  if (is_floating(dtype)) return true;
  double low = 0, high = 1;
  if (dtype == DType::u8) high = 255;
  if (dtype == DType::i32) low = -2147483648.0, high = 2147483647.0;
  if (dtype == DType::i64) low = -0x1p53, high = 0x1p53;
  for (double v : to_doubles(tensor))
    if (!(v >= low && v <= high) || v != std::floor(v)) return false;
  return true;
}

Tensor copy_of(const Tensor& tensor) {
  Tensor copy = Tensor::empty(tensor.dtype(), tensor.shape());
  if (tensor.byte_size() > 0)
    std::memcpy(copy.mutable_raw(), tensor.raw(), static_cast<size_t>(tensor.byte_size()));
  return copy;
}

// One case as a graph: a placeholder for each input.
struct Built {
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  std::vector<Output> inputs;
  std::vector<Output> outputs;
  std::vector<Output> more;  // placeholders of gradient weights
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
Built built(const Case& c, const std::vector<Tensor>& inputs, bool known) {
  Built b;
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

const Op& op_of(const OpCase& c) { return builtin_ops()->get(c.op); }

// The case in other dtypes: `from` becomes `to` everywhere. Nothing if a value does not fit.
std::optional<OpCase> with_dtype(OpCase c, DType from, DType to) {
  for (auto* tensors : {&c.inputs, &c.expected})
    for (Tensor& tensor : *tensors) {
      if (tensor.dtype() != from) continue;
      if (!holds(to, tensor)) return {};
      tensor = converted(tensor, to);
    }
  return c;
}

std::vector<OpCase> in_all_dtypes(const OpCase& c) {
  const Op& op = op_of(c);
  if (c.as_written || op.dispatch < 0 || c.inputs.empty()) return {c};
  const DType from = c.inputs[static_cast<size_t>(op.dispatch)].dtype();
  std::vector<OpCase> cases;
  for (DType to : {DType::f32, DType::f64, DType::i32, DType::i64, DType::u8, DType::boolean}) {
    const auto fits = [&](const Kernel& k) {
      return k.device == DeviceKind::cpu && (k.dtype == to || k.dtype == DType::none);
    };
    if (std::none_of(op.kernels.begin(), op.kernels.end(), fits)) continue;
    if (auto converted_case = with_dtype(c, from, to)) cases.push_back(*converted_case);
  }
  return cases;
}

void check_outputs(const std::vector<Tensor>& got, const OpCase& c) {
  REQUIRE(got.size() == c.expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CHECK(difference(got[i], c.expected[i], c.tolerance).value_or("") == "");
  }
}

// The graph gives on every accelerator what it gave on the CPU: to the bit on the shadow, which
// runs the same kernels, else as near as the tables ask.
void check_on_accelerators(const Built& b, const std::vector<Output>& outputs,
                           const std::vector<Tensor>& expected, std::optional<double> tolerance) {
  for (const auto& device : accelerators()) {
    CAPTURE(device->name());
    const std::vector<Tensor> got = b.run_on(*device, outputs);
    REQUIRE(got.size() == expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      CAPTURE(i);
      if (device->kind() == DeviceKind::shadow)
        CHECK_MESSAGE(same_bits(got[i], expected[i]), got[i], " instead of ", expected[i]);
      else
        CHECK(difference(got[i], expected[i], tolerance).value_or("") == "");
    }
  }
}

// The node's kernel as an engine runs it that has no other use for input 0.
void check_in_place(const Built& b, const OpCase& c) {
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
  kernel->run(call.context);
  check_outputs(outputs, c);
}

void check_value_as_is(const OpCase& c) {
  for (const bool known : {true, false}) {
    CAPTURE(known);
    const Built b = built(c, c.inputs, known);
    REQUIRE(b.outputs.size() == c.expected.size());
    const std::vector<Tensor> got = b.run(b.outputs);
    check_outputs(got, c);
    for (size_t i = 0; i < got.size(); ++i) {
      CHECK_MESSAGE(b.outputs[i].shape().accepts(got[i].shape()), "inferred ",
                    to_string(b.outputs[i].shape()), ", got ", to_string(got[i].shape()));
      CHECK(to_string(b.outputs[i].dtype()) == std::string(to_string(got[i].dtype())));
    }
    // Else it would have run on the CPU only.
    if (!c.build && !b.outputs.empty() && !op_of(c).value_shapes)
      CHECK(accelerators()[0]->kernel_for(b.graph->node(b.outputs[0].node)) != nullptr);
    check_on_accelerators(b, b.outputs, got, c.tolerance);
    if (!c.build && op_of(c).in_place) check_in_place(b, c);
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

// d(sum weights . outputs)/d(x) by central differences; the shape of the value of x.
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

// `outputs` differentiated by gradients() and by differences. Returns the gradients that there are.
std::vector<Output> check_derivatives(Built& b, const std::vector<Output>& outputs,
                                      const std::vector<Output>& xs, bool known, double seed,
                                      double tolerance) {
  std::vector<Tensor> weights;
  std::vector<Output> weight_inputs;
  for (const Tensor& value : b.run(outputs)) {
    weights.push_back(converted(waves(value.shape(), seed), value.dtype()));
    weight_inputs.push_back(b.feed(weights.back(), known));
  }
  const std::vector<Output> slopes = gradients(outputs, xs, weight_inputs);
  REQUIRE(slopes.size() == xs.size());
  std::vector<Output> found;
  for (size_t i = 0; i < xs.size(); ++i) {
    CAPTURE(i);
    const Tensor expected = differences(b, outputs, weights, xs[i]);
    const Tensor got = slopes[i].defined() ? b.run({slopes[i]})[0]
                                           : Tensor::zeros(expected.dtype(), expected.shape());
    CHECK(difference(got, expected, tolerance).value_or("") == "");
    if (!slopes[i].defined()) continue;
    check_on_accelerators(b, {slopes[i]}, {got}, tolerance);
    found.push_back(slopes[i]);
  }
  return found;
}

void check_gradient_as_is(const OpCase& c, const std::vector<Tensor>& inputs, bool known) {
  CAPTURE(known);
  Built b = built(c, inputs, known);
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
  const auto first = check_derivatives(b, ys, xs, known, 0.7, c.gradient_tolerance);
  if (first.empty() || !c.twice || size > kTwiceSizeMax) return;
  INFO("second derivatives");
  check_derivatives(b, first, xs, known, 0.2, 10 * c.gradient_tolerance);
}

std::vector<OpCases (*)()>& mutable_listed_cases() {
  static std::vector<OpCases (*)()> list;
  return list;
}

std::string position(const Shape& shape, int64_t i) {
  std::vector<int64_t> index(static_cast<size_t>(shape.ndim()));
  for (int d = shape.ndim() - 1; d >= 0; --d) {
    index[static_cast<size_t>(d)] = i % shape[d];
    i /= shape[d];
  }
  return to_string(Shape(index));
}

}  // namespace

const std::vector<std::unique_ptr<Device>>& accelerators() {
  static const auto all = [] {
    std::vector<std::unique_ptr<Device>> devices;
    devices.push_back(make_shadow_device("/job:test/task:0/device:shadow:0", kAcceleratorBytes));
    if (cuda_device_count() > 0)
      devices.push_back(make_cuda_device("/job:test/task:0/device:cuda:0", 0, kAcceleratorBytes));
    return devices;
  }();
  return all;
}

Tensor scalar(double value) { return Tensor::scalar(value); }

Tensor vector(std::initializer_list<double> list) {
  return Tensor::of<double>(list, Shape{static_cast<int64_t>(list.size())});
}

Tensor matrix(std::initializer_list<std::initializer_list<double>> rows) {
  std::vector<double> all;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  const int64_t n = rows.size() ? static_cast<int64_t>(rows.begin()->size()) : 0;
  return from_doubles(all, DType::f64, Shape{static_cast<int64_t>(rows.size()), n});
}

Tensor values(const Shape& shape, std::initializer_list<double> list) {
  return Tensor::of<double>(list, shape);
}

Tensor zeros(const Shape& shape, DType dtype) { return Tensor::zeros(dtype, shape); }

Tensor full(const Shape& shape, double value) {
  return from_doubles(std::vector<double>(static_cast<size_t>(shape.size()), value), DType::f64,
                      shape);
}

Tensor iota(const Shape& shape, double first, double step) {
  std::vector<double> list;
  for (int64_t i = 0; i < shape.size(); ++i) list.push_back(first + step * static_cast<double>(i));
  return from_doubles(list, DType::f64, shape);
}

Tensor waves(const Shape& shape, double seed) {
  std::vector<double> list;
  for (int64_t i = 0; i < shape.size(); ++i)
    list.push_back(std::sin(1.7 * static_cast<double>(i) + seed));
  return from_doubles(list, DType::f64, shape);
}

Tensor converted(const Tensor& tensor, DType dtype) {
  TROUPE_CHECK(holds(dtype, tensor), tensor, " does not fit into ", dtype);
  return from_doubles(to_doubles(tensor), dtype, tensor.shape());
}

std::optional<std::string> difference(const Tensor& got, const Tensor& expected,
                                      std::optional<double> tolerance) {
  if (!got.defined()) return "got no tensor";
  if (got.dtype() != expected.dtype() || got.shape() != expected.shape())
    return detail::concat("got ", got.dtype(), got.shape(), ", expected ", expected.dtype(),
                          expected.shape());
  double bound = 0;
  if (is_floating(got.dtype())) bound = got.dtype() == DType::f32 ? 1e-5 : 1e-12;
  if (is_floating(got.dtype()) && tolerance) bound = *tolerance;
  const auto g = to_doubles(got), e = to_doubles(expected);
  for (size_t i = 0; i < g.size(); ++i) {
    if (g[i] == e[i] || (std::isnan(g[i]) && std::isnan(e[i]))) continue;
    if (std::isfinite(e[i]) && std::abs(g[i] - e[i]) <= bound * std::max(1.0, std::abs(e[i])))
      continue;
    return detail::concat("at ", position(got.shape(), static_cast<int64_t>(i)), ": got ", g[i],
                          ", expected ", e[i], "; all: ", got);
  }
  return {};
}

void check_value(const OpCase& c) {
  CAPTURE(c.op);
  CAPTURE(c.name);
  const std::vector<OpCase> all = in_all_dtypes(c);
  CHECK_MESSAGE(!all.empty(), "no kernel of this op can hold the case");
  for (const OpCase& one : all) {
    const std::string dtype = one.inputs.empty() ? "" : to_string(one.inputs[0].dtype());
    CAPTURE(dtype);
    check_value_as_is(one);
  }
}

void check_gradient(const OpCase& c) {
  if (!c.smooth || !op_of(c).gradient || !op_of(c).no_gradient.empty()) return;
  CAPTURE(c.op);
  CAPTURE(c.name);
  std::vector<Tensor> inputs = c.inputs;
  for (Tensor& input : inputs)
    if (input.dtype() == DType::f32) input = converted(input, DType::f64);
  for (const bool known : {true, false}) check_gradient_as_is(c, inputs, known);
}

void check_refused(const OpError& e) {
  CAPTURE(e.op);
  CAPTURE(e.message);
  std::vector<Device*> devices = {nullptr};  // the CPU
  for (const auto& device : accelerators()) devices.push_back(device.get());
  for (const bool known : {true, false})
    for (Device* device : devices) {
      const std::string where = device ? device->name() : "cpu";
      CAPTURE(known);
      CAPTURE(where);
      std::string text = "nothing was thrown";
      try {
        const Built b = built(e, e.inputs, known);
        if (!known || e.when_run) device ? b.run_on(*device, b.outputs) : b.run(b.outputs);
      } catch (const Error& error) {
        text = error.what();
        CHECK(to_string(error.code()) == std::string("invalid_argument"));
      }
      CHECK_MESSAGE(text.find(e.message) != text.npos, "got: ", text);
    }
}

void check(const OpCases& cases) {
  for (const OpCase& c : cases.values) {
    check_value(c);
    check_gradient(c);
  }
  for (const OpError& e : cases.errors) check_refused(e);
}

OpCases unary_cases(const std::string& op, const Tensor& refused, std::vector<OpCase> values) {
  values.push_back({.name = "empty", .inputs = {zeros({3, 0})}, .expected = {zeros({3, 0})}});
  for (OpCase& c : values) c.op = op;
  return {
      .values = std::move(values),
      .errors = {
          {.op = op,
           .inputs = {refused},
           .message =
               detail::concat("has no kernel for ", refused.dtype(), "; cast to one of f32, f64")},
          {.op = op, .inputs = {zeros({2}), zeros({2})}, .message = "wants 1 input (x), got 2"}}};
}

OpCases binary_cases(const std::string& op, const Tensor& refused, std::vector<OpCase> values) {
  const DType in = values[0].inputs[0].dtype(), out = values[0].expected[0].dtype();
  const DType other = in == DType::i32 ? DType::i64 : DType::i32;
  values.push_back({.name = "empty",
                    .inputs = {zeros({0, 3}, in), zeros({3}, in)},
                    .expected = {zeros({0, 3}, out)}});
  for (OpCase& c : values) c.op = op;
  OpCases cases = {.values = std::move(values)};
  cases.errors = {{.op = op,
                   .inputs = {zeros({2, 3}, in), zeros({4}, in)},
                   .message = "shapes do not broadcast: [2, 3] and [4]"},
                  {.op = op,
                   .inputs = {zeros({2}, in), zeros({2}, other)},
                   .message = detail::concat("one dtype, got ", in, " and ", other)}};
  if (refused.defined())
    cases.errors.push_back(
        {.op = op,
         .inputs = {refused, refused},
         .message = detail::concat("has no kernel for ", refused.dtype(), "; cast to one of ")});
  return cases;
}

ListedCases::ListedCases(OpCases (*cases)()) { mutable_listed_cases().push_back(cases); }

const std::vector<OpCases (*)()>& listed_cases() { return mutable_listed_cases(); }

}  // namespace troupe

// Rows of ONNX's branches and loops: their bodies, which are graphs in attributes, are built in the
// frames of cond, while_loop, scan and map_rows.

#include "tests/conformance/mapping.hpp"
#include "troupe/ops/control_flow.hpp"

namespace troupe {
namespace {

// The shape that the model declares, with -1 for unknown sizes; `otherwise` if it declares none.
Shape declared(const onnx::Value& value, const Shape& otherwise) {
  if (!value.type().tensor_type().has_shape()) return otherwise;
  std::vector<int64_t> dims;
  for (const onnx::Dimension& d : value.type().tensor_type().shape().dim())
    dims.push_back(d.value_case() == onnx::Dimension::kDimValue ? d.dim_value() : -1);
  return Shape(dims);
}

// `made`, reshaped to the model's shape if only the model knows it.
Output as_declared(const onnx::Value& value, Output made) {
  const Shape shape = declared(value, made.shape());
  return made.shape().is_known() || !shape.is_known() ? made : reshape(made, shape);
}

std::vector<Output> built(const NodeCall& c, const onnx::Graph& body,
                          const std::vector<Output>& inputs) {
  std::vector<Output> made = c.build(body, inputs);
  for (size_t i = 0; i < made.size(); ++i)
    made[i] = as_declared(body.output(static_cast<int>(i)), made[i]);
  return made;
}

Output scalar(Output x) { return x.shape().ndim() == 0 ? x : reshape(x, {}); }

std::vector<Output> if_row(const NodeCall& c) {
  const auto branch = [&](const char* name) {
    return [&c, name] { return built(c, c.body(name), {}); };
  };
  return cond(scalar(c.input(0)), branch("then_branch"), branch("else_branch"));
}

// The values that a loop's body keeps of an iteration: dtypes and shapes, from a copy in a branch
// that never runs.
std::vector<Output> kept_by(const NodeCall& c, const std::vector<Output>& initial) {
  const onnx::Graph& body = c.body("body");
  const auto once = [&] {
    std::vector<Output> inputs;
    for (const Output& value : initial) inputs.push_back(identity(value));
    std::vector<Output> made = built(c, body, inputs);
    made.erase(made.begin(), made.begin() + static_cast<std::ptrdiff_t>(initial.size()) - 1);
    return made;
  };
  return cond(fill(c.graph, {}, 0, DType::boolean), once, once);
}

// Loop variables: the number of the iteration, the condition, the model's variables, and
// [iterations, ...] of each kept value.
std::vector<Output> loop_row(const NodeCall& c) {
  const onnx::Graph& body = c.body("body");
  std::vector<Output> initial = {
      fill(c.graph, {}, 0, DType::i64),
      c.has_input(1) ? scalar(c.input(1)) : fill(c.graph, {}, 1, DType::boolean)};
  for (int i = 2; i < c.input_count(); ++i) initial.push_back(c.input(i));
  const size_t own = initial.size();
  std::vector<Shape> shapes;
  for (size_t i = 0; i < own; ++i)
    shapes.push_back(i < 2 ? Shape{}
                           : declared(body.input(static_cast<int>(i)), initial[i].shape()));
  for (const Output& row : kept_by(c, initial)) {
    if (!row.shape().is_known()) throw NotCovered{"a loop that keeps values of any shape"};
    std::vector<int64_t> dims(row.shape().begin(), row.shape().end());
    dims.insert(dims.begin(), 0);
    initial.push_back(fill(c.graph, Shape(dims), 0, row.dtype()));
    dims[0] = -1;
    shapes.push_back(Shape(dims));
  }
  const auto again = [&](const std::vector<Output>& variables) {
    if (!c.has_input(0)) return identity(variables[1]);
    return logical_and(less(variables[0], scalar(c.input(0))), variables[1]);
  };
  const auto step = [&](const std::vector<Output>& variables) {
    const std::vector<Output> made =
        built(c, body, {variables.begin(), variables.begin() + static_cast<std::ptrdiff_t>(own)});
    std::vector<Output> next = {variables[0] + 1, scalar(made[0])};
    next.insert(next.end(), made.begin() + 1, made.begin() + static_cast<std::ptrdiff_t>(own) - 1);
    for (size_t i = own; i < variables.size(); ++i)
      next.push_back(concat({variables[i], expand_dims(made[i - 1], 0)}, 0));
    return next;
  };
  std::vector<Output> results = while_loop(again, step, initial, {.shapes = shapes});
  results.erase(results.begin(), results.begin() + 2);
  return results;
}

// The values of a node: first the carried ones, then the scanned ones.
struct ScanCall {
  std::vector<Output> initial, xs;
};

std::vector<Output> scanned(const NodeCall& c, const ScanCall& call) {
  const auto step = [&](const std::vector<Output>& carry, const std::vector<Output>& rows) {
    std::vector<Output> inputs = carry;
    inputs.insert(inputs.end(), rows.begin(), rows.end());
    const std::vector<Output> made = built(c, c.body("body"), inputs);
    const auto kept = made.begin() + static_cast<std::ptrdiff_t>(carry.size());
    return Scanned{{made.begin(), kept}, {kept, made.end()}};
  };
  Scanned made = scan(step, call.initial, call.xs);
  made.carry.insert(made.carry.end(), made.rows.begin(), made.rows.end());
  return made.carry;
}

// Before version 9 all values have a batch dimension before the rows, and an input gives the number
// of valid rows.
std::vector<Output> batched_scan(const NodeCall& c, size_t xs) {
  if (c.has_input(0)) throw NotCovered{"a scan over rows of several lengths"};
  if (c.has_attr("directions")) throw NotCovered{"a batched scan that begins at the end"};
  std::vector<Output> all;
  for (int i = 1; i < c.input_count(); ++i) all.push_back(c.input(i));
  const auto one = [&](const std::vector<Output>& of_batch) {
    const auto first = of_batch.end() - static_cast<std::ptrdiff_t>(xs);
    return scanned(c, {{of_batch.begin(), first}, {first, of_batch.end()}});
  };
  return map_rows(one, all);
}

std::vector<Output> scan_row(const NodeCall& c) {
  const auto xs = static_cast<size_t>(c.integer("num_scan_inputs", 1));
  if (c.opset < 9) return batched_scan(c, xs);
  const std::vector<Output> all = c.inputs();
  ScanCall call;
  const auto first = all.end() - static_cast<std::ptrdiff_t>(xs);
  call.initial.assign(all.begin(), first);
  call.xs.assign(first, all.end());
  const auto setting = [&](const char* name, size_t i) {
    const std::vector<int64_t> values = c.integers(name);
    return i < values.size() ? values[i] : 0;
  };
  for (size_t i = 0; i < xs; ++i) {
    Output& x = call.xs[i];
    x = moved_axis(x, axis_of(setting("scan_input_axes", i), x.shape().ndim()), 0);
    if (setting("scan_input_directions", i) != 0) x = reverse(x, {0});
  }
  std::vector<Output> results = scanned(c, call);
  for (size_t i = call.initial.size(); i < results.size(); ++i) {
    Output& y = results[i];
    const size_t kept = i - call.initial.size();
    if (setting("scan_output_directions", kept) != 0) y = reverse(y, {0});
    y = moved_axis(y, 0, axis_of(setting("scan_output_axes", kept), y.shape().ndim()));
  }
  return results;
}

}  // namespace

std::vector<MappedOp> control_rows() {
  return {
      {"If", "cond", if_row},
      {"Loop", "while_loop", loop_row},
      {"Scan", "scan, map_rows", scan_row},
  };
}

}  // namespace troupe

// scan and map_rows: a loop over the rows of tensors. The rows that the iterations keep are written
// one by one into zeros, a variable of the loop; in place, because the variable has no other
// reader.
#include <algorithm>

#include "graph/frames.hpp"
#include "ops/control_flow/loop_builder.hpp"

namespace troupe {
namespace {

void check_call(const char* function, const std::vector<Output>& initial,
                const std::vector<Output>& xs, const WhileOptions& options, Origin at) {
  if (!options.shapes.empty() && options.shapes.size() != initial.size())
    throw refused(function, at, "got ", options.shapes.size(), " shapes for a carry of ",
                  initial.size(), " values; give one for each, or none");
  if (xs.empty()) throw refused(function, at, "wants at least one x, whose rows it goes over");
  for (const Output& value : initial) require_defined(function, at, {value});
  for (const Output& x : xs) {
    require_defined(function, at, {x});
    if (x.shape().ndim() < 1)
      throw refused(function, at, "wants xs with rows, got a scalar, ", x.name());
    if (x.graph != xs[0].graph)
      throw refused(function, at, "wants xs of one graph, got ", x.name(), " of another than ",
                    xs[0].name());
  }
  for (const Output& x : xs)
    for (const Output& other : xs)
      if (!may_equal(x.shape()[0], other.shape()[0]))
        throw refused(function, at, "wants xs with one number of rows, got ", x.shape(), " and ",
                      other.shape());
}

// The number of rows of the xs; a step fails if they differ. `known`: the number, or -1.
Output rows_of(const char* function, const std::vector<Output>& xs, int64_t known) {
  Graph& graph = *xs[0].graph;
  if (std::all_of(xs.begin(), xs.end(), [](const Output& x) { return x.shape()[0] >= 0; }))
    return fill(graph, {}, static_cast<double>(known), DType::i64);
  std::vector<Output> shapes;
  for (const Output& x : xs) shapes.push_back(shape_of(x));
  return graph.add({.op = "CommonRows",
                    .inputs = std::move(shapes),
                    .attrs = {{"function", std::string(function)}}});
}

void check_step(const char* function, const Scanned& step, const std::vector<Output>& carry,
                Origin at) {
  if (step.carry.size() != carry.size())
    throw refused(function, at, "the step returns a carry of ", step.carry.size(),
                  " values, but gets one of ", carry.size());
  for (size_t i = 0; i < carry.size(); ++i) {
    require_defined(function, at, {step.carry[i]});
    if (step.carry[i].dtype() != carry[i].dtype() ||
        !may_equal(step.carry[i].shape(), carry[i].shape()))
      throw refused(function, at, "value ", i, " of the carry is ", carry[i].dtype(),
                    carry[i].shape(), ", but the step makes ", step.carry[i].dtype(),
                    step.carry[i].shape(), " of it");
  }
  for (size_t i = 0; i < step.rows.size(); ++i) {
    require_defined(function, at, {step.rows[i]});
    if (!step.rows[i].shape().is_known())
      throw refused(function, at, "value ", i, " that the step keeps is ", step.rows[i].dtype(),
                    step.rows[i].shape(), "; its shape must be known, so reshape it");
    if (step.rows[i].shape().ndim() == Shape::kNdimMax)
      throw refused(function, at, "value ", i, " that the step keeps has ", int{Shape::kNdimMax},
                    " dimensions; with the rows that would be one too many");
  }
}

// [rows, ...] of zeros for rows like `row`; `rows` is a scalar.
Output no_rows_yet(Graph& graph, int64_t known_rows, Output rows, const Output& row) {
  const Shape& shape = row.shape();
  const Output zeros =
      fill(graph, shape_with_rows(known_rows >= 0 ? known_rows : 1, shape.dims()), 0, row.dtype());
  if (known_rows >= 0) return zeros;
  const Output zero = fill(graph, {}, 0, DType::i64), one = fill(graph, {}, 1, DType::i64);
  return gather(zeros, multiply(range(zero, rows, one), zero));
}

Scanned run(const char* function, const ScanStep& step, const std::vector<Output>& initial,
            const std::vector<Output>& xs, const WhileOptions& options, Origin at) {
  if (!step) throw refused(function, at, "its function is empty");
  check_call(function, initial, xs, options, at);
  Graph& graph = *xs[0].graph;
  const auto scope = graph.scope({.name = std::string(options.name), .origin = at}, at);
  int64_t known = -1;
  for (const Output& x : xs) known = std::max(known, x.shape()[0]);
  const Output rows = rows_of(function, xs, known);
  const Output first = fill(graph, {}, 0, DType::i64);
  LoopBuilder loop(graph, options, at);
  std::vector<Output> next;
  {
    const auto frame = open_frame(graph, loop.frame(), {}, at);
    const Output index = loop.counting_variable(first);
    for (size_t i = 0; i < initial.size(); ++i)
      loop.variable(initial[i], options.shapes.empty() ? initial[i].shape() : options.shapes[i]);
    const int32_t opener = loop.body(less(index, rows));
    const auto inner = graph.scope({.name = "body"}, at);
    const auto in_body = open_frame(graph, opener, {}, at);
    const std::vector<Output> carry(loop.variables().begin() + 1, loop.variables().end());
    std::vector<Output> row;
    for (const Output& x : xs) row.push_back(gather(x, index));
    const Scanned made = step(carry, row);
    check_step(function, made, carry, at);
    next.push_back(index + 1);
    next.insert(next.end(), made.carry.begin(), made.carry.end());
    for (const Output& value : made.rows) {
      Output zeros;
      {
        const auto outside = open_frame(graph, loop.outside(), {}, at);
        zeros = no_rows_yet(graph, known, rows, value);
      }
      next.push_back(
          tensor_scatter_update(loop.variable(zeros, zeros.shape()), reshape(index, {1}), value));
    }
    for (Output& value : next) value = captured(graph, value, at);
  }
  std::vector<Output> results = loop.finish(next);
  const auto kept = results.begin() + 1 + static_cast<ptrdiff_t>(initial.size());
  return {{results.begin() + 1, kept}, {kept, results.end()}};
}

}  // namespace

Scanned scan(const ScanStep& step, const std::vector<Output>& initial,
             const std::vector<Output>& xs, const WhileOptions& options, Origin at) {
  return run("scan", step, initial, xs, options, at);
}

std::vector<Output> map_rows(const LoopBody& f, const std::vector<Output>& xs,
                             const WhileOptions& options, Origin at) {
  if (!f) throw refused("map_rows", at, "its function is empty");
  return run(
             "map_rows",
             [&](const std::vector<Output>&, const std::vector<Output>& rows) {
               return Scanned{{}, f(rows)};
             },
             {}, xs, options, at)
      .rows;
}

}  // namespace troupe

// Functions along any axis. Expected values are NumPy's.
#include "troupe/ops/arrays.hpp"

#include "tests/support/op_cases.hpp"
#include "tests/support/refusal.hpp"

namespace troupe {
namespace {

using Inputs = std::vector<Output>;
using Function = std::function<Inputs(const Inputs&)>;

OpCase function_case(const char* name, const char* op, std::vector<Tensor> inputs,
                     std::vector<Tensor> expected, Function f, bool smooth = true) {
  return {.name = name,
          .op = op,
          .inputs = std::move(inputs),
          .expected = std::move(expected),
          .build = [f](Graph&, const Inputs& in) { return f(in); },
          .smooth = smooth};
}

OpError refused(const char* op, std::vector<Tensor> inputs, const char* message, Function f) {
  return Refused(op, std::move(inputs), message).made_by([f](Graph&, const Inputs& in) {
    return f(in);
  });
}

const Table softmaxes("softmax and log_softmax go along any axis", [] {
  const Tensor x = matrix({{1, 2, 4}, {0, -1, 3}});
  const auto along = [](int64_t axis) {
    return [axis](const Inputs& in) { return Inputs{softmax(in[0], axis)}; };
  };
  const auto log_along = [](int64_t axis) {
    return [axis](const Inputs& in) { return Inputs{log_softmax(in[0], axis)}; };
  };
  return OpCases{
      .values = {function_case(
                     "softmax over the first axis", "Softmax", {x},
                     {matrix({{0.7310585786300049, 0.9525741268224334, 0.7310585786300049},
                              {0.2689414213699951, 0.04742587317756678, 0.2689414213699951}})},
                     along(0)),
                 function_case("softmax over an axis in the middle", "Softmax",
                               {values({2, 2, 1}, {1, 0, 4, 3})},
                               {values({2, 2, 1}, {0.7310585786300049, 0.2689414213699951,
                                                   0.7310585786300049, 0.2689414213699951})},
                               along(-2)),
                 function_case("softmax of nothing", "Softmax", {zeros({2, 0})}, {zeros({2, 0})},
                               along(0)),
                 function_case(
                     "log_softmax over the last axis", "Softmax", {x},
                     {matrix({{-3.1698460195562856, -2.1698460195562856, -0.16984601955628567},
                              {-3.0658839037574293, -4.065883903757429, -0.06588390375742925}})},
                     log_along(-1)),
                 function_case(
                     "log_softmax over the first axis", "Softmax", {x},
                     {matrix({{-0.31326168751822286, -0.04858735157374205, -0.31326168751822286},
                              {-1.3132616875182228, -3.048587351573742, -1.3132616875182228}})},
                     log_along(0)),
                 // Here the logarithm of softmax is the logarithm of 0.
                 function_case("log_softmax far apart", "Softmax", {vector({0, 1000})},
                               {vector({-1000, 0})}, log_along(0), false)},
      .errors = {refused("Softmax", {x}, "has axes from -2 to 1", along(2)),
                 refused("Softmax", {x}, "axis -3 is not there", log_along(-3))}};
});

const Table gathers("gather takes slices along any axis", [] {
  const auto along = [](int64_t axis) {
    return [axis](const Inputs& in) { return Inputs{gather(in[0], in[1], axis)}; };
  };
  return OpCases{
      .values = {function_case("columns", "Gather", {iota({2, 3}), i64(vector({2, 0}))},
                               {matrix({{2, 0}, {5, 3}})}, along(1)),
                 function_case("rows", "Gather", {iota({2, 3}), i64(vector({1}))},
                               {matrix({{3, 4, 5}})}, along(-2)),
                 function_case("one column", "Gather", {iota({2, 3}), i64(scalar(1))},
                               {vector({1, 4})}, along(1)),
                 function_case("a matrix of indices in the middle", "Gather",
                               {iota({2, 2, 2}), i64(matrix({{1, 0, 1}}))},
                               {values({2, 1, 3, 2}, {2, 3, 0, 1, 2, 3, 6, 7, 4, 5, 6, 7})},
                               along(1)),
                 function_case("no index", "Gather", {iota({2, 3}), i64(zeros({0}))},
                               {zeros({2, 0})}, along(1))},
      .errors = {
          refused("Gather", {iota({2, 3}), i64(vector({0}))}, "axis 2 is not there", along(2))}};
});

}  // namespace

TEST_CASE("split_sizes cuts an axis into parts of any sizes, with gradients") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, {2, 3});
  const FedValues fed = {{x, iota({2, 3})}};
  const std::vector<Output> columns = split_sizes(x, {1, 2}, -1);
  CHECK_FALSE(difference(evaluate(columns[0], fed), matrix({{0}, {3}})));
  CHECK_FALSE(difference(evaluate(columns[1], fed), matrix({{1, 2}, {4, 5}})));
  const std::vector<Output> rows = split_sizes(x, {0, -1, 1}, 0);
  CHECK_FALSE(difference(evaluate(rows[0], fed), zeros({0, 3})));
  CHECK_FALSE(difference(evaluate(rows[1], fed), matrix({{0, 1, 2}})));
  CHECK_FALSE(difference(evaluate(rows[2], fed), matrix({{3, 4, 5}})));
  // d/dx of 3 * the sum of column 0 + the sum of squares of the others.
  const Output y = reduce_sum(columns[0]) * 3 + reduce_sum(square(columns[1]));
  CHECK_FALSE(difference(evaluate(gradients({y}, {x})[0], fed), matrix({{3, 2, 4}, {3, 8, 10}})));
}

TEST_CASE("sizes that do not fill an axis are refused with what is wrong") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {-1, 3});
  const auto refused = [&](Ints sizes, int64_t axis, const char* text) {
    check_invalid([&] { split_sizes(x, sizes, axis); }, text);
  };
  refused({2}, 1, "the sizes leave 1 over; they are [2] along axis 1 of [-1, 3]");
  refused({2, 2}, -1, "the sizes are more than there is");
  refused({-1, -1}, 1, "only one size may be -1");
  refused({-2, 1}, 1, "a size is below 0; they are [-2, 1]");
  refused({2}, 0, "wants to know the size that is split");
  refused({3}, 2, "axis 2 is not there");
}

}  // namespace troupe

// Tensors without elements whose other sizes are as large as possible: nothing overflows, and no
// loop runs over elements that do not exist.

#include "ops/gradients.hpp"
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

constexpr int64_t kLarge = 2147483647;

TEST_CASE("an empty tensor may have sizes whose product is no number") {
  using Inputs = std::vector<Output>;
  struct Case {
    const char* name;
    std::vector<Shape> inputs;
    Output (*build)(const Inputs&);
    Shape expected;
  };
  const Shape large{kLarge, kLarge, kLarge, 0};
  const std::vector<Case> cases = {
      {"add", {large, large}, [](const Inputs& x) { return x[0] + x[1]; }, large},
      {"a broadcast add",
       {{kLarge, 1, kLarge, 0}, {kLarge, 1, 0}},
       [](const Inputs& x) { return x[0] + x[1]; },
       large},
      {"broadcast_to",
       {{kLarge, 1, 0}},
       [](const Inputs& x) {
         return broadcast_to(x[0], {kLarge, kLarge, kLarge, 0});
       },
       large},
      {"argmax",
       {{kLarge, kLarge, kLarge, 3, 0}},
       [](const Inputs& x) { return argmax(x[0], 3); },
       large},
      {"no sums",
       {large},
       [](const Inputs& x) {
         return reduce_sum(x[0], {.axes = {0, 2}});
       },
       {kLarge, 0}},
      {"no maxima",
       {large},
       [](const Inputs& x) {
         return reduce_max(x[0], {.axes = {0, 1}});
       },
       {kLarge, 0}},
      {"no products",
       {large},
       [](const Inputs& x) { return reduce_prod(x[0], {.axes = {2}}); },
       {kLarge, kLarge, 0}},
      {"no logarithms of sums",
       {large},
       [](const Inputs& x) {
         return log_sum_exp(x[0], {.axes = {0, 1}});
       },
       {kLarge, 0}},
      {"running sums", {large}, [](const Inputs& x) { return cumsum(x[0], {.axis = 1}); }, large},
      {"a recurrence",
       {large, large},
       [](const Inputs& x) { return linear_recurrence(x[0], x[1], 2); },
       large},
      {"transpose",
       {large},
       [](const Inputs& x) {
         return transpose(x[0], {3, 1, 0, 2});
       },
       {0, kLarge, kLarge, kLarge}},
      {"slice",
       {large},
       [](const Inputs& x) {
         return slice(x[0], {1, 1, 1, 0}, {-1, -1, -1, -1});
       },
       {kLarge - 1, kLarge - 1, kLarge - 1, 0}},
      {"concat", {large, large}, [](const Inputs& x) { return concat(x, 3); }, large},
      {"a product", {large, {0, 0}}, [](const Inputs& x) { return matmul(x[0], x[1]); }, large},
      {"no channels",
       {large},
       [](const Inputs& x) { return max_pool2d(x[0], {.window = 1, .stride = 1}); },
       large},
      {"a convolution of no channels",
       {large, {1, 1, 0, 0}},
       [](const Inputs& x) { return conv2d(x[0], x[1]); },
       large},
  };
  for (const Case& c : cases)
    for (DType dtype : {DType::f32, DType::f64}) {
      CAPTURE(c.name);
      CAPTURE(to_string(dtype));
      Graph graph;
      Inputs inputs;
      FedValues feeds;
      for (const Shape& shape : c.inputs) {
        inputs.push_back(placeholder(graph, dtype, shape));
        feeds.insert_or_assign(inputs.back(), Tensor::zeros(dtype, shape));
      }
      CHECK(evaluate(c.build(inputs), feeds).shape() == c.expected);
    }
}

TEST_CASE("a sum over a dimension of size 0 is 0, whatever the others are") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {2, kLarge, kLarge, kLarge, 0});
  const Output y = reduce_sum(x, {.axes = {1, 2, 3, 4}});
  const Tensor nothing = Tensor::zeros(DType::f32, x.shape());
  CHECK(same_bits(evaluate(y, {{x, nothing}}), f32(vector({0, 0}))));
}

}  // namespace
}  // namespace troupe

// accumulate_gradients: the gradients of a batch in parts are those of the whole batch, and the
// graph runs one part after the other.

#include <algorithm>
#include <set>

#include "tests/support/parameters.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {
namespace {

// A small network over a batch of 128, as one part or several.
struct Network {
  explicit Network(int64_t parts) {
    sum = accumulate_gradients({x, labels}, parts, [&](const std::vector<Output>& part) {
      model.rewind();
      const Output hidden = tanh(nn::dense(model, part[0], 6));
      return reduce_mean(softmax_cross_entropy(nn::dense(model, hidden, 3), part[1]));
    });
  }
  FedValues feeds() {
    FedValues out = feed_parameters(graph);
    out[x] = sines({128, 5}, 0.61, 0.2);
    Tensor y = Tensor::empty(DType::i64, {128});
    for (int64_t i = 0; i < 128; ++i) y.mutable_data<int64_t>()[i] = i * i % 3;
    out[labels] = y;
    return out;
  }
  Graph graph;
  nn::Model model{graph};
  Output x = placeholder(graph, DType::f64, {-1, 5}, "x");
  Output labels = placeholder(graph, DType::i64, {-1}, "labels");
  AccumulatedGradients sum;
};

}  // namespace

TEST_CASE("four parts of 32 records have the loss and gradients of 128, but for rounding") {
  Network whole(1), parts(4);
  const FedValues all = whole.feeds(), feeds = parts.feeds();
  CHECK(evaluate(parts.sum.loss, feeds).item<double>() ==
        doctest::Approx(evaluate(whole.sum.loss, all).item<double>()).epsilon(1e-14));
  REQUIRE(parts.sum.gradients.size() == 4);
  REQUIRE(whole.sum.gradients.size() == 4);
  for (size_t i = 0; i < 4; ++i) {
    const Tensor want = evaluate(whole.sum.gradients[i].gradient, all);
    const auto values = want.values<double>();
    check_close(evaluate(parts.sum.gradients[i].gradient, feeds), want.shape(),
                {values.begin(), values.end()}, 1e-15);
    CHECK(parts.sum.gradients[i].reads.size() == 1);
  }
}

TEST_CASE("a part's first nodes run after the gradients of the part before") {
  Network parts(3);
  // All nodes that the node waits for, directly or not.
  const auto before = [&](int32_t id) {
    std::set<int32_t> seen = {id};
    std::vector<int32_t> open = {id};
    while (!open.empty()) {
      const Node& node = parts.graph.node(open.back());
      open.pop_back();
      for (const Output& input : node.inputs)
        if (seen.insert(input.node).second) open.push_back(input.node);
      for (int32_t control : node.control_inputs)
        if (seen.insert(control).second) open.push_back(control);
    }
    return seen;
  };
  std::vector<int32_t> products;  // forward products of the first layer
  for (const auto& node : parts.graph.nodes())
    if (node->name.ends_with("/dense/MatMul") && node->name.find("gradients") == std::string::npos)
      products.push_back(node->id);
  REQUIRE(products.size() == 3);
  for (size_t p = 1; p < 3; ++p) {
    const std::set<int32_t> earlier = before(products[p]);
    CHECK(std::any_of(earlier.begin(), earlier.end(), [&](int32_t id) {
      const std::string& name = parts.graph.node(id).name;
      return name.starts_with(detail::concat("part", p - 1)) &&
             name.find("gradients") != std::string::npos;
    }));
  }
}

TEST_CASE("there is one push for each parameter, however many parts") {
  Network parts(4);
  apply_gradients(parts.sum.gradients, sgd(0.1));
  int64_t pushes = 0;
  for (const auto& node : parts.graph.nodes()) pushes += node->op->name == "PushGradient";
  CHECK(pushes == 4);
}

TEST_CASE("what cannot be cut into parts is refused") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, {6}), number = placeholder(graph, DType::f64, {});
  int calls = 0;
  const auto loss = [&](const std::vector<Output>& part) {
    return reduce_sum(
        multiply(part[0], parameter(calls++ ? "v" : "w", fill(graph, {}, 1, DType::f64))));
  };
  const auto refused = [&](const std::vector<Output>& inputs, int64_t parts, const char* text) {
    check_invalid([&] { accumulate_gradients(inputs, parts, loss); }, text, "accumulate_test.cpp");
  };
  refused({x}, 0, "wants at least one part, got 0");
  refused({}, 2, "got no inputs to cut");
  refused({{}}, 2, "an input is an undefined Output");
  refused({number}, 2, "cuts along the first dimension");
  refused({x}, 4, "4");  // the batch has 6 records
  refused({x}, 2, "made a loss of other parameters for another part");
}

}  // namespace troupe

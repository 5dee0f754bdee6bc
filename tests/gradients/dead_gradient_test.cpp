// The gradient of a first layer's input: gradients() of a graph adds it on request, and no call
// that does not fetch it runs a node of it.

#include "tests/support/pass_text.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

// y = (x w1)^2 w2, with dL/dy, and the gradients of x, w1 and w2.
const std::string kForward =
    "x = Placeholder() dtype=f32 shape=[8, 4]\n"
    "w1 = Placeholder() dtype=f32 shape=[4, 3]\n"
    "w2 = Placeholder() dtype=f32 shape=[3, 2]\n"
    "first = MatMul(x, w1) transpose_a=false transpose_b=false\n"
    "h = Square(first)\n";
const std::string kBackward =
    "dy = Placeholder() dtype=f32 shape=[8, 2]\n"
    "dh = MatMul(dy, w2) transpose_a=false transpose_b=true\n"
    "dw2 = MatMul(h, dy) transpose_a=true transpose_b=false\n"
    "twice = Add(first, first)\n"
    "dfirst = Multiply(dh, twice)\n";
const std::string kDeadGradient = "dx = MatMul(dfirst, w1) transpose_a=false transpose_b=true\n";
const std::string kGradient = "dw1 = MatMul(x, dfirst) transpose_a=true transpose_b=false\n";

std::string pruned(const std::vector<std::string>& fetches) {
  return after(no_edits, kForward + kBackward + kDeadGradient + kGradient, fetches,
               {"x", "w1", "w2", "dy"});
}

}  // namespace

TEST_CASE("the gradient of what the first layer reads is left out unless it is fetched") {
  CHECK(pruned({"dw1", "dw2"}) == kForward + kBackward + kGradient);
  CHECK(pruned({"dw1", "dx"}) ==
        kForward.substr(0, kForward.find("h = ")) + kBackward.substr(0, kBackward.find("dw2")) +
            kBackward.substr(kBackward.find("twice")) + kDeadGradient + kGradient);
}

TEST_CASE("gradients() of parameters alone adds no product for what the first layer reads") {
  Graph g;
  const Output x = placeholder(g, DType::f32, {8, 4}, "x");
  const Output w1 = placeholder(g, DType::f32, {4, 3}, "w1");
  const Output w2 = placeholder(g, DType::f32, {3, 2}, "w2");
  const Output loss = reduce_sum(matmul(relu(matmul(x, w1)), w2));
  const std::vector<Output> d = gradients({loss}, {w1, w2});
  const CallGraph call = call_graph(g, {loss, d[0], d[1]}, {x, w1, w2});
  int products = 0;
  for (const auto& node : call.graph->nodes()) products += node->op->name == "MatMul";
  CHECK(products == 5);  // the layers, and the gradients of w1, w2 and h
}

}  // namespace troupe

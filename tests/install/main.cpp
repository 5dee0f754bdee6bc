// A service outside the tree: builds a small graph with the installed headers and library, and
// looks at it.
#include <cstdio>
#include <string>

#include "troupe/ops.hpp"

int main() {
  troupe::Graph graph;
  const troupe::Output x = troupe::placeholder(graph, troupe::DType::f32, {2, 3}, "x");
  const troupe::Output w =
      troupe::constant(graph, troupe::Tensor::zeros(troupe::DType::f32, {3, 1}), "w");
  const troupe::Output y = troupe::relu(troupe::matmul(x, w) + 1.0);
  if (y.shape() != troupe::Shape{2, 1}) {
    std::fprintf(stderr, "wrong shape: %s\n", troupe::to_string(y.shape()).c_str());
    return 1;
  }
  try {
    troupe::matmul(x, x);
  } catch (const troupe::Error& error) {
    // The message must name this file, as the node was made here.
    if (std::string(error.what()).find("main.cpp:") != std::string::npos) return 0;
    std::fprintf(stderr, "no origin in: %s\n", error.what());
  }
  return 1;
}

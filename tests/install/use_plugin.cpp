// A program outside the tree that loads the plugin named on its command line and runs its op, and
// checks that a file that is not a plugin is refused.
#include <cstdio>

#include "troupe/ops.hpp"
#include "troupe/custom_op.hpp"
#include "troupe/session.hpp"

int main(int argc, char** argv) {
  using namespace troupe;
  if (argc != 2) return 64;
  Graph graph(ops_with_plugins({argv[1]}));
  const Output x = placeholder(graph, DType::f32, {2});
  const Output y = graph.add({.op = "Half", .inputs = {x}});
  const Output dx = gradients({y}, {x})[0];
  Session session = Session::local(graph);
  const auto got = session.run({y, dx}, {{x, Tensor::of<float>({3, 8}, {2})}});
  if (!same_bits(got[0], Tensor::of<float>({1.5, 4}, {2}))) return 1;
  if (!same_bits(got[1], Tensor::of<float>({0.5, 0.5}, {2}))) return 2;
  try {
    ops_with_plugins({argv[0]});
    return 3;
  } catch (const Error& error) {
    std::fprintf(stderr, "as it should be: %s\n", error.what());
  }
  return 0;
}

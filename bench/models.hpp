// The models of the benchmark `train`, as graphs. bench/onednn/ has each of them as a loop of
// oneDNN calls, bench/peers/ in PyTorch and TensorFlow: they start with the same weights, read the
// same batch in every step, and must reach the same loss.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe::bench {

struct Model {
  std::string name;
  int64_t batch = 0;                                // examples, or sequences
  std::vector<std::pair<std::string, Output>> fed;  // by the name that bench/onednn uses
  std::vector<Tensor> feeds;                        // their values, the same in every step
  Output loss, update;
  // For one step, products and convolutions only: the forward computation and both gradients of
  // each, except that a product of a fed value has only one gradient. A multiply-add counts as two.
  double flop = 0;
};

const std::vector<std::string>& model_names();
struct ModelOptions {
  // The backward half recomputes the residual blocks of resnet20 instead of keeping their values.
  bool recompute = false;
  // The batch is a constant of the graph, on the device of the open scope: nothing is fed.
  bool held = false;
};
// Throws: Error(invalid_argument) for an unknown name, or for `recompute` with a model without such
// blocks.
Model make_model(Graph& graph, const std::string& name, const ModelOptions& options = {});

// Writes the initial parameters and the fed values to one file for bench/onednn and bench/peers: a
// line "name dtype sizes..." for each tensor, an empty line, and the bytes of the tensors one after
// the other.
void write_model(const std::string& name, const std::string& path);

}  // namespace troupe::bench

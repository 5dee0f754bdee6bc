// The models of the benchmark `train`, as graphs. bench/onednn/ has each of them as a loop of
// oneDNN calls, bench/peers/ in PyTorch and TensorFlow: they begin with the same weights, get the
// same batch in every step, and must come to the same loss.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe::bench {

struct Model {
  std::string name;
  int64_t batch = 0;                                // examples, or sequences
  std::vector<std::pair<std::string, Output>> fed;  // by the name that bench/onednn knows
  std::vector<Tensor> feeds;                        // their values, the same in every step
  Output loss, update;
  // Of a step: forward, and both gradients of each product but of those that read what is fed,
  // which need only one; two for a multiply-add. Products and convolutions alone.
  double flop = 0;
};

const std::vector<std::string>& model_names();
// `again`: the backward half computes the residual blocks of resnet20 again instead of keeping what
// is in them. Throws: Error(invalid_argument) for a name that is none of those, or that has no such
// blocks.
Model make_model(Graph& graph, const std::string& name, bool again = false);

// Writes the parameters as they are before the first step, and what is fed, into one file that
// bench/onednn and bench/peers read: a line "name dtype sizes..." for each tensor, an empty line,
// and their bytes one after the other.
void write_model(const std::string& name, const std::string& path);

}  // namespace troupe::bench

// Which parameter of a graph takes which tensor of a file: a pure function of names, types and
// LoadOptions.
// Owner: none, plain values. Thread: any.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "training/parameters/layout.hpp"
#include "troupe/training.hpp"

namespace troupe {

struct Matching {
  std::map<std::string, std::string> taken;  // parameter of the graph -> tensor of the file
  LoadReport report;
};

// Throws: Error(invalid_argument) for options that name no parameter of the graph;
// Error(bad_configuration) naming both sides if the options are strict and something differs, or if
// no parameter takes a tensor. `file`: its name, for messages.
Matching match_parameters(const std::vector<ParameterSpec>& graph,
                          const std::map<std::string, TensorType>& tensors,
                          const LoadOptions& options, const std::string& file);

// The same numbers, rounded once, in another floating dtype.
Tensor cast_floating(const Tensor& tensor, DType dtype);

}  // namespace troupe

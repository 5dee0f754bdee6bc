// Helpers shared by the files of troupe/nn.hpp: initial values as nodes, and checks of layers'
// inputs.
#pragma once

#include <string>

#include "troupe/nn.hpp"

namespace troupe::nn {

// A node with the initial values of a parameter; random ones are keyed by (seed, key). Throws:
// Error(invalid_argument) for invalid settings, shape or dtype.
Output first_values(Graph& graph, const Shape& shape, const Initializer& first, int64_t seed,
                    const std::string& key, DType dtype, Origin at);

// The same values for a parameter with these fans, whatever its shape says.
Initializer with_fans(Initializer first, double in, double out);

// Requires floats of the model's graph, with at least (or exactly) `ndim` dimensions. Throws:
// Error(invalid_argument).
void require_floats(const char* caller, const Model& model, Output x, int ndim, Origin at,
                    bool exactly = false);

// The same, and the last size must be known; returns it.
int64_t last_size(const char* caller, const Model& model, Output x, int ndim, Origin at,
                  bool exactly = false);

// `value` must be at least 1. Throws: Error(invalid_argument) that calls it `what`.
void require_positive(const char* caller, const char* what, int64_t value, Origin at);

}  // namespace troupe::nn

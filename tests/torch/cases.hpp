// The cases that are compared with PyTorch and Keras, as JSON for compare.py; a session computes
// their values.
#pragma once

#include <string>
#include <vector>

namespace troupe {

// One JSON object each.
std::vector<std::string> op_cases();            // formulas of PyTorch
std::vector<std::string> torch_trajectories();  // its optimizers and schedules
std::vector<std::string> keras_trajectories();  // cases that PyTorch lacks or has in another form

// "[1, 0.5]", with as many digits as a double has.
std::string to_json(const std::vector<double>& numbers);

}  // namespace troupe

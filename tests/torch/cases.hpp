// What is compared with PyTorch and Keras, as JSON for compare.py: made here, computed by a
// session.
#pragma once

#include <string>
#include <vector>

namespace troupe {

// One JSON object each.
std::vector<std::string> op_cases();            // formulas of PyTorch
std::vector<std::string> torch_trajectories();  // its optimizers and schedules
std::vector<std::string> keras_trajectories();  // what PyTorch has not, or not in this form

// "[1, 0.5]", with as many digits as a double has.
std::string to_json(const std::vector<double>& numbers);

}  // namespace troupe

// The network of train_digits, what it is trained on, and how.
#pragma once

#include <string>
#include <vector>

#include "troupe/data.hpp"
#include "troupe/ops.hpp"
#include "troupe/training.hpp"

// How to train on one of the data sets. docs/decisions.md says how the digits' figures were chosen.
struct Setting {
  std::string name;
  // Nothing is chosen by the test images; the validation images are not trained on either.
  troupe::Dataset train, validation, test;
  int64_t side = 8;  // images are [side, side, 1]
  int64_t filter = 3, channels = 16, hidden = 64;
  int64_t batch = 32;  // per tower
  int64_t steps = 0;
  double learning_rate = 1e-3, dropout = 0.5;
  troupe::DType compute = troupe::DType::f32;  // bf16, f16: mixed precision
  double wanted_accuracy = 0;                  // percent of the test images
  bool check_loss = true;                      // a loss that is not finite ends the training
};

struct Network {
  std::vector<troupe::Tower> towers;
  troupe::Output images, classes;  // for evaluation: [n, side, side, 1] f32 -> [n] i64
};

// The digits that ship with Troupe, or MNIST. `validation`: how many of the last training images
// are held out; may be 0. Throws: what the readers throw; invalid_argument if none would be left.
Setting digits_setting(const std::string& file, int64_t validation);
Setting mnist_setting(const std::string& folder, int64_t validation);

inline constexpr int64_t kTowers = 2;

// `workers`: tower i runs on worker i modulo this; 0: all in this process. `batches` must outlive
// the network.
Network build(troupe::Graph& graph, const Setting& setting, const troupe::Batches& batches,
              int64_t towers, int64_t workers);

// The digits that scenes are made of: their files, and sources of scenes.
#pragma once

#include <optional>
#include <string>

#include "troupe/source.hpp"

// Sources of batches with the fields of the function "scene".
struct Scenes {
  troupe::Source train, validation, test;
  troupe::Source singles, validation_singles;  // scenes of one digit on a smaller canvas
  troupe::Source shown;                        // a batch for people to look at
  std::string name;                            // of the data
  int64_t canvas = 0, singles_canvas = 0;      // sides of scenes
  int64_t train_digits = 0, test_digits = 0;
};

struct SceneOptions {
  std::optional<std::string> data;
  int64_t canvas = 0, digits = 4, passes = 0, held_out = 10;
  int64_t batch = 32;  // scenes of one tower in a step
  int64_t threads = 1;
  uint64_t seed = 1;
};

// `data`: a folder with MNIST's four IDX files, plain or .gz; a table as CSV whose last column is
// the digit; or none: the digits that ship with Troupe. Reads all labels once. Throws:
// Error(invalid_argument) for options; Error(io) and Error(bad_data) naming the file, also for a
// label that is no digit, and a digit that no training picture shows.
Scenes load_scenes(const SceneOptions& given, const troupe::Registry& functions);

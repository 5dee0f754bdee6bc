// The networks of images: each gives a picture a value for every class.
#pragma once

#include <cstdint>
#include <string>

#include "apps/flags.hpp"
#include "troupe/nn.hpp"

struct NetworkOptions {
  std::string name = "resnet";
  int64_t blocks = 3;
  double weight_decay = 1e-4;
};
void add_network_flags(Flags& flags, NetworkOptions& to);
// Throws: Error(invalid_argument) that names the flag.
void check(const NetworkOptions& given);

// pictures [n, h, w, channels] -> logits [n, classes]
troupe::Output logits_of(troupe::nn::Model& model, troupe::Output pictures,
                         const NetworkOptions& given, int64_t classes);

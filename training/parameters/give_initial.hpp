// GiveInitial: first values of a slice for a shard of the same process.
#pragma once

#include <cstdint>
#include <string>

#include <caf/all.hpp>

#include "troupe/tensor.hpp"

namespace troupe {

// As SetInitial (training/parameters/messages.hpp), but all values at once, and without copies on
// the way: of a large parameter these would leave holes in the heap that stay.
struct GiveInitial {
  std::string container;
  int32_t shard = 0;
  uint32_t slice = 0;
  uint64_t epoch = 0;
  Tensor values;  // [slice.size]
};

}  // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::GiveInitial)

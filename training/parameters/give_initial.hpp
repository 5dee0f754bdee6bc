// GiveInitial: first values of a slice for a shard of the same process.
// Owner: a value. Thread: any.
#pragma once

#include <cstdint>
#include <string>

#include <caf/all.hpp>

#include "troupe/tensor.hpp"

namespace troupe {

// Like SetInitial (training/parameters/messages.hpp), but with all values at once and no copies on
// the way: copies of a large parameter would fragment the heap for good.
struct GiveInitial {
  std::string container;
  int32_t shard = 0;
  uint32_t slice = 0;
  uint64_t epoch = 0;
  Tensor values;  // [slice.size]
};

}  // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::GiveInitial)

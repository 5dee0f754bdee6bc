// All records of a stage in an epoch, not made yet. For tests of readers and of functions.
#pragma once

#include <vector>

#include "data/source/stage.hpp"

namespace troupe {

inline std::vector<Lazy> records_of(const Stage& stage, int64_t epoch = 0) {
  std::vector<Lazy> out;
  const auto stream = stage->open(epoch);
  while (Lazy record = stream->next()) out.push_back(std::move(record));
  return out;
}

}  // namespace troupe

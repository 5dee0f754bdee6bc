// IDX files from any storage; read_idx() of troupe/data.hpp reads local ones.
#pragma once

#include <cstdint>
#include <memory>

#include "data/files.hpp"
#include "troupe/tensor.hpp"

namespace troupe {

// Throws: as read_idx().
Tensor read_idx(std::shared_ptr<const RandomFile> file, int64_t bytes_max);

}  // namespace troupe

// The limit of deflate, by which sizes of packed files are checked.
#pragma once

#include <cstdint>

namespace troupe {

// One bit of code for 258 bytes, and no better: zlib.net, "Technical Details".
constexpr int64_t kDeflateRatio = 1032;

}  // namespace troupe

// SplitMix: random numbers for the order of data and for its augmentation.
#pragma once

#include <cstdint>

namespace troupe {

// SplitMix64 (Steele, Lea and Flood 2014): every seed gives a full-period sequence, so keys need no
// warming up.
struct SplitMix {
  uint64_t state;
  uint64_t next() {
    uint64_t z = (state += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  // Uniform in [0, n), without bias (Lemire 2019).
  uint64_t below(uint64_t n) {
    for (;;) {
      const auto product = static_cast<unsigned __int128>(next()) * n;
      const auto low = static_cast<uint64_t>(product);
      if (low >= n || low >= (0 - n) % n) return static_cast<uint64_t>(product >> 64);
    }
  }
};

}  // namespace troupe

// Random numbers for the order of data and for its augmentation: SplitMix64 (Steele, Lea and Flood
// 2014), as a sequence and as keys.
#pragma once

#include <cstdint>

namespace troupe {

constexpr uint64_t kSplitMixStep = 0x9e3779b97f4a7c15U;

constexpr uint64_t split_mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

// Uniform in [0, n), without bias (Lemire 2019), from numbers that `next()` draws.
template <class Next>
uint64_t uniform_below(uint64_t n, Next&& next) {
  for (;;) {
    const auto product = static_cast<unsigned __int128>(next()) * n;
    const auto low = static_cast<uint64_t>(product);
    if (low >= n || low >= (0 - n) % n) return static_cast<uint64_t>(product >> 64);
  }
}

// Every seed gives a full-period sequence, so keys need no warming up.
struct SplitMix {
  uint64_t state;
  uint64_t next() { return split_mix(state += kSplitMixStep); }
  uint64_t below(uint64_t n) {
    return uniform_below(n, [this] { return next(); });
  }
};

// A key for random draws.
constexpr uint64_t mixed_key(uint64_t seed, int64_t epoch, int64_t number) {
  uint64_t key = 0;
  for (const uint64_t part : {seed, static_cast<uint64_t>(epoch), static_cast<uint64_t>(number)})
    key = split_mix((key ^ part) + kSplitMixStep);
  return key;
}

}  // namespace troupe

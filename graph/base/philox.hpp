// Philox 4x32-10: random numbers as a pure function of a counter and a key, so that any process can
// recompute any of them (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011). It has no state and no order.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

#include "graph/base/fnv.hpp"

namespace troupe {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

// Constants and known answers: Random123, philox.h and kat_vectors.
inline PhiloxCounter philox_round(PhiloxCounter counter, PhiloxKey key) {
  const uint64_t a = uint64_t{0xD2511F53} * counter[0];
  const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
  return {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
          static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
}
inline PhiloxKey next_philox_key(PhiloxKey key) {
  return {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
}
// Four random words.
inline PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    counter = philox_round(counter, key);
    key = next_philox_key(key);
  }
  return counter;
}

// The numbers that one node draws in one training step of one replica: 2^48 blocks of four words.
// Block b is philox(counter, key) with
//   key     = fnv1a64(name) xor seed, low word first
//   counter = {b bits 0-31, b bits 32-47 | replica << 16, step bits 0-31, step bits 32-63}
// In iteration i of a loop, or in a function call with path i, the key is replaced by words 0 and 1
// of
//   philox({i bits 0-31, i bits 32-63, kWithin, 0}, key)
// Nested loops apply this one after the other, the outermost first. Before them, a run outside
// training with the number or seed r, not 0, applies the same with r and kRun, at step 0.
class RandomStream {
 public:
  static constexpr int64_t kReplicasMax = 1 << 16;

  // Requires: 0 <= replica < kReplicasMax. A step of -1 (outside training) counts as 0.
  RandomStream(int64_t seed, std::string_view name, int64_t step, int64_t replica)
      : key_(fnv1a64(name) ^ static_cast<uint64_t>(seed)),
        step_(step < 0 ? 0 : static_cast<uint64_t>(step)),
        replica_(static_cast<uint32_t>(replica)) {}

  void enter(int64_t iteration) { key_ = key_within(key_, iteration); }
  static uint64_t key_within(uint64_t key, int64_t iteration) {
    return key_in(key, static_cast<uint64_t>(iteration), kWithin);
  }
  void enter_run(uint64_t draws) { key_ = key_in(key_, draws, kRun); }

  std::array<uint32_t, 4> block(uint64_t b) const { return philox(counter(b), key()); }

  static constexpr int kBlocks = 64;
  // The words of blocks b to b + kBlocks - 1, computed in the lanes of vectors: for a loop of
  // in_isa() (devices/threads/isa.hpp).
  void blocks(uint64_t b, uint32_t (&words)[4 * kBlocks]) const {
    uint32_t c[4][kBlocks];
    for (int i = 0; i < kBlocks; ++i) {
      const PhiloxCounter one = counter(b + static_cast<uint64_t>(i));
      c[0][i] = one[0], c[1][i] = one[1], c[2][i] = one[2], c[3][i] = one[3];
    }
    PhiloxKey k = key();
    for (int round = 0; round < 10; ++round) {
      for (int i = 0; i < kBlocks; ++i) {
        const PhiloxCounter one = philox_round({c[0][i], c[1][i], c[2][i], c[3][i]}, k);
        c[0][i] = one[0], c[1][i] = one[1], c[2][i] = one[2], c[3][i] = one[3];
      }
      k = next_philox_key(k);
    }
    for (int i = 0; i < kBlocks; ++i)
      for (int j = 0; j < 4; ++j) words[4 * i + j] = c[j][i];
  }

 private:
  static constexpr uint32_t kWithin = 0x68746170, kRun = 0x206e7572;  // no training's step numbers
  static uint64_t key_in(uint64_t key, uint64_t i, uint32_t where) {
    const PhiloxCounter words =
        philox({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), where, 0},
               {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
    return uint64_t{words[1]} << 32 | words[0];
  }
  PhiloxCounter counter(uint64_t b) const {
    return {static_cast<uint32_t>(b), static_cast<uint32_t>(b >> 32) | replica_ << 16,
            static_cast<uint32_t>(step_), static_cast<uint32_t>(step_ >> 32)};
  }
  PhiloxKey key() const { return {static_cast<uint32_t>(key_), static_cast<uint32_t>(key_ >> 32)}; }

  uint64_t key_;
  uint64_t step_;
  uint32_t replica_;
};

// In [0, 1), from the 53 upper bits of two words.
inline double unit_double(uint32_t low, uint32_t high) {
  return static_cast<double>((uint64_t{high} << 32 | low) >> 11) * 0x1p-53;
}
// In [0, 1), from the 24 upper bits of a word.
inline float unit_float(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

// A standard normal number, or nothing if these words are rejected: the ratio of two uniform
// numbers (Kinderman and Monahan 1977), z = sqrt(8 / e) * v / u, is accepted if z^2 <= -4 * log(u).
// 73 % of attempts succeed.
inline std::optional<double> normal_attempt(const std::array<uint32_t, 4>& words) {
  constexpr double kScale = 1.7155277699214135;  // sqrt(8 / e)
  const double u = 1 - unit_double(words[0], words[1]);
  const double z = kScale * (unit_double(words[2], words[3]) - 0.5) / u;
  return z * z <= -4 * std::log(u) ? std::optional(z) : std::nullopt;
}

}  // namespace troupe

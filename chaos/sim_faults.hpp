// The faults of a simulated network for bytes and frames, and the random numbers that decide them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "net/link/link.hpp"
#include "net/link/seams.hpp"

namespace troupe::sim {

using ns = std::chrono::nanoseconds;

class SeededRng final : public Rng {
 public:
  explicit SeededRng(uint64_t seed) : engine_(seed) {}
  uint64_t next() override { return engine_(); }

 private:
  std::mt19937_64 engine_;
};

struct SimFaults {
  ns delay_min{20'000}, delay_max{200'000};     // for each piece of bytes
  double drop = 0, duplicate = 0, reorder = 0;  // probabilities for a small data-plane frame
  size_t window = 1 << 20;   // bytes one direction holds before a write is cut short
  bool one_machine = false;  // new streams are local and pass descriptors
  size_t piece_max = 0;  // bytes handed over at once, drawn from [1, this]; 0: as they were written
};

// A frame under way, passed to the filter: the bytes after the greeting, cut at frame borders.
struct SimFrame {
  std::string from, to;
  Channel channel;
  uint8_t flags;
  uint16_t type;
  uint64_t target, sender;
  std::vector<std::byte>& bytes;  // begin with the header, kFrameHeader bytes
};
enum class Verdict { pass, drop, duplicate, hold_one };

}  // namespace troupe::sim

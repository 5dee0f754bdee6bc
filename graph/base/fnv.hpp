// Fnv: the hash FNV-1a, 64 bits (http://www.isthe.com/chongo/tech/comp/fnv/), the same on every
// machine.
// Owner: its user. Thread: one at a time.
#pragma once

#include <cstdint>
#include <string_view>

namespace troupe {

class Fnv {
 public:
  constexpr Fnv& add(std::string_view bytes) {
    for (const char c : bytes) value_ = (value_ ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    return *this;
  }
  constexpr uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325u;
};

inline uint64_t fnv1a64(std::string_view text) { return Fnv().add(text).value(); }

}  // namespace troupe

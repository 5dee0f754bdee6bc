// DoubleBits: how a message's double is read and written: as its bits. CAF 0.17 writes a double by
// a loop that does not end for infinity, and makes -1 of NaN. Owner: none, a value for the time of
// one inspect(). Thread: any.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include <caf/deserializer.hpp>
#include <caf/error.hpp>

namespace troupe {

struct DoubleBits {
  double& value;
};

template <class I>
auto inspect(I& f, DoubleBits& x) {
  auto bits = std::bit_cast<uint64_t>(x.value);
  if constexpr (std::is_base_of_v<caf::deserializer, I>) {
    const caf::error wrong = f(bits);
    x.value = std::bit_cast<double>(bits);
    return wrong;
  } else {
    return f(bits);
  }
}

}  // namespace troupe

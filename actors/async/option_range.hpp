// Range checks for numbers in a program's options, made before they are used.
// Owner: none, plain functions. Thread: any.
#pragma once

#include <cstdint>

#include "troupe/error.hpp"

namespace troupe {

// Throws: Error(invalid_argument) naming the option, its value and the allowed range, unless the
// value is in [least, most]. `wants`: the same range in words.
inline void want_range(const char* option, int64_t value, int64_t least, int64_t most,
                       const char* wants) {
  if (value < least || value > most)
    throw Error(Errc::invalid_argument, option, " is ", value, "; wants ", wants);
}
inline void want_least(const char* option, int64_t value, int64_t least, const char* wants) {
  want_range(option, value, least, INT64_MAX, wants);
}

}  // namespace troupe

// Outcome: the result of a request that is answered at once.
// Owner: a value. Thread: any.
#pragma once

#include <string>

#include "troupe/error.hpp"

namespace troupe {

// Failures of the outside world are values, not exceptions.
struct Outcome {
  Errc code = Errc::ok;
  std::string text = {};
  explicit operator bool() const { return code == Errc::ok; }
};

}  // namespace troupe

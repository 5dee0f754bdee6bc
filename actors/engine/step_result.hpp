// StepResult: how a step ended.
//
// Owner: the holder of the value. Thread: any.
#pragma once

#include <string>

#include "troupe/op.hpp"

namespace troupe {

struct StepResult {
  Errc code = Errc::ok;
  std::string text;
};

}  // namespace troupe

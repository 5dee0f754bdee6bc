// StepResult: how a step ended.
#pragma once

#include <string>

#include "troupe/op.hpp"

namespace troupe {

struct StepResult {
  Errc code = Errc::ok;
  std::string text;
};

}  // namespace troupe

// How Push::write names a change of values that no gradient makes: 0 is a gradient.
#pragma once

#include <cstdint>

#include "troupe/op.hpp"

namespace troupe {

constexpr uint8_t write_code(ParameterWrite::Kind kind) { return static_cast<uint8_t>(1 + kind); }

// Requires: it is not 0. A code that no write has gives a kind that is none.
constexpr ParameterWrite::Kind write_kind(uint8_t code) {
  return static_cast<ParameterWrite::Kind>(code - 1);
}

constexpr bool writes_rows(ParameterWrite::Kind kind) {
  return kind == ParameterWrite::assign_rows || kind == ParameterWrite::add_rows;
}

}  // namespace troupe

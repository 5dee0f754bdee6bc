// The codes of Push::write: 0 is a gradient, others are a ParameterWrite.
// Owner: none, plain functions. Thread: any.
#pragma once

#include <cstdint>

#include "devices/run_context.hpp"
#include "troupe/op.hpp"

namespace troupe {

constexpr uint8_t write_code(ParameterWrite::Kind kind) { return static_cast<uint8_t>(1 + kind); }

// Requires: code > 0. An unknown code gives an invalid kind.
constexpr ParameterWrite::Kind write_kind(uint8_t code) {
  return static_cast<ParameterWrite::Kind>(code - 1);
}

constexpr bool writes_rows(ParameterWrite::Kind kind) {
  return kind == ParameterWrite::assign_rows || kind == ParameterWrite::add_rows;
}

}  // namespace troupe

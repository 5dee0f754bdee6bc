// Runs a call that must throw, and returns the code and the text of its Error.
#pragma once

#include <string>

#include <doctest/doctest.h>

#include "troupe/error.hpp"

namespace troupe {

struct Refusal {
  Errc code = Errc::ok;
  std::string text = {};
};

template <class F>
Refusal refusal_of(F&& call) {
  try {
    call();
  } catch (const Error& e) {
    return {e.code(), e.what()};
  }
  return {};
}

template <class F>
Errc code_of(F&& call) {
  return refusal_of(call).code;
}

inline void has(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CAPTURE(part);
  CHECK(text.find(part) != std::string::npos);
}

// Checks that `call` is refused as an invalid argument, in words that have all of `parts`.
template <class F, class... Parts>
void check_invalid(F&& call, const Parts&... parts) {
  const Refusal refusal = refusal_of(call);
  CHECK(refusal.code == Errc::invalid_argument);
  (has(refusal.text, parts), ...);
}

}  // namespace troupe

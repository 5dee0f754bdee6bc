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

// The text of the error with `code` that `call` must end with.
template <class F>
std::string error_text(Errc code, F&& call) {
  const Refusal refusal = refusal_of(call);
  CHECK_MESSAGE(refusal.code == code, refusal.text);
  return refusal.text;
}

// Checks that `call` fails with `code`, in words that have all of `parts`.
template <class F, class... Parts>
void check_error(Errc code, F&& call, const Parts&... parts) {
  const std::string text = error_text(code, call);
  (has(text, parts), ...);
}
template <class F, class... Parts>
void check_invalid(F&& call, const Parts&... parts) {
  check_error(Errc::invalid_argument, call, parts...);
}

}  // namespace troupe

// The error of functions that are made of ops: Error(invalid_argument) with the function, the
// caller's line and the parts.
#pragma once

#include "troupe/graph.hpp"

namespace troupe {

template <class... Parts>
Error refuse(const char* caller, Origin at, const Parts&... parts) {
  return Error(Errc::invalid_argument, caller, " at ", at.file, ":", at.line, ": ",
               detail::concat(parts...));
}

}  // namespace troupe

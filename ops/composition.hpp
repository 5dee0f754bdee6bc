// What functions share that are made of other ops and add no node of their own kind.
#pragma once

#include "troupe/graph.hpp"

namespace troupe {

// Error(invalid_argument) with the function, the caller's line and the parts, as a node's would be.
template <class... Parts>
Error refusal(const char* function, Origin at, const Parts&... parts) {
  return Error(Errc::invalid_argument, function, " made at ", at.file, ":", at.line, ": ",
               detail::concat(parts...));
}

}  // namespace troupe

// The error of functions that add nodes, for the time before there is a node to name.
#pragma once

#include <initializer_list>
#include <string_view>

#include "troupe/graph.hpp"

namespace troupe {

// Error(invalid_argument): the name `what`, the caller's line and the parts.
template <class... Parts>
Error refused(std::string_view what, Origin at, const Parts&... parts) {
  return Error(Errc::invalid_argument, what, " made at ", at.file, ":", at.line, ": ",
               detail::concat(parts...));
}

inline void require_defined(std::string_view what, Origin at,
                            std::initializer_list<Output> inputs) {
  for (const Output& input : inputs)
    if (!input.defined())
      throw refused(what, at, "its inputs are undefined Outputs; pass the results of ops");
}

}  // namespace troupe

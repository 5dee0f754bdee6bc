// Lists of names in messages for people: "a, b, c".
// Owner: none, a plain function. Thread: any.
#pragma once

#include <string>

namespace troupe {

template <class Names>
std::string joined(const Names& names, const char* between = ", ") {
  std::string out;
  for (const std::string& name : names) {
    if (!out.empty()) out += between;
    out += name;
  }
  return out;
}

}  // namespace troupe

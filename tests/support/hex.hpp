// Bytes that tests write as hexadecimal digits.
#pragma once

#include <string>
#include <string_view>

namespace troupe {

inline std::string from_hex(std::string_view digits) {
  std::string out;
  for (size_t i = 0; i + 1 < digits.size(); i += 2)
    out += static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16));
  return out;
}

}  // namespace troupe

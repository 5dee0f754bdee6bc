// UTF-8: its check, and its code points one by one. On utf8proc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "troupe/error.hpp"

namespace troupe {

// The offset of the first byte that is not part of well-formed UTF-8 (RFC 3629), or npos.
size_t invalid_utf8(std::string_view text);

// Throws: Error(bad_data) with `place` and the offset of the first bad byte.
void check_utf8(std::string_view text, std::string_view place);

// The bytes of the code point that begins with `lead`. Requires: well-formed UTF-8.
inline size_t utf8_length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// Text in double quotes for messages: at most 40 bytes of it, cut between code points.
std::string in_quotes(std::string_view text);

}  // namespace troupe

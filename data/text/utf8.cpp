// The functions of utf8.hpp.
#include "data/text/utf8.hpp"

#include <utf8proc.h>

#include <cstring>

namespace troupe {

size_t invalid_utf8(std::string_view text) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  for (size_t at = 0; at < text.size();) {
    uint64_t eight = 0;
    if (at + sizeof eight <= text.size()) {
      std::memcpy(&eight, bytes + at, sizeof eight);
      if ((eight & 0x8080808080808080U) == 0) {  // ASCII
        at += sizeof eight;
        continue;
      }
    }
    utf8proc_int32_t code = 0;
    const auto n =
        utf8proc_iterate(bytes + at, static_cast<utf8proc_ssize_t>(text.size() - at), &code);
    if (n <= 0) return at;
    at += static_cast<size_t>(n);
  }
  return std::string_view::npos;
}

void check_utf8(std::string_view text, std::string_view place) {
  const size_t at = invalid_utf8(text);
  if (at == std::string_view::npos) return;
  constexpr const char* digits = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(text[at]);
  throw Error(Errc::bad_data, place, ": byte ", at, " (0x", digits[byte >> 4], digits[byte & 15],
              ") is not UTF-8; convert the text, with iconv say");
}

std::string in_quotes(std::string_view text) {
  constexpr size_t most = 40;
  size_t n = std::min(text.size(), most);
  while (n > 0 && n < text.size() && (text[n] & 0xC0) == 0x80) --n;
  return detail::concat('"', text.substr(0, n), n < text.size() ? "...\"" : "\"");
}

}  // namespace troupe

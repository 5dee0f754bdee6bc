// Tokens of texts as views, without a string for each: the loops below tokenize() and the readers
// and functions of sources.
//
// The rule of TokenKind::words is that of troupe/text.hpp. Letters are Unicode's categories L, M
// and N; white space is Z, the controls from TAB to CR, and NEL; other controls (Cc) and formats
// (Cf) are left out; all else is punctuation.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "data/text/utf8.hpp"
#include "troupe/text.hpp"

namespace troupe {

enum class CharKind : uint8_t { space, letter, digit, punctuation, none };

// Kind and lower case of the ASCII characters.
struct AsciiTable {
  std::array<CharKind, 128> kinds{};
  std::array<char, 128> lower{};
};
constexpr AsciiTable kAscii = [] {
  AsciiTable table;
  for (int i = 0; i < 128; ++i) {
    const auto c = static_cast<char>(i);
    const bool upper = c >= 'A' && c <= 'Z';
    const auto at = static_cast<size_t>(i);
    table.lower[at] = static_cast<char>(upper ? c + 32 : c);
    table.kinds[at] = c == ' ' || (c >= '\t' && c <= '\r') ? CharKind::space
                      : c < ' ' || c == 127                ? CharKind::none
                      : c >= '0' && c <= '9'               ? CharKind::digit
                      : upper || (c >= 'a' && c <= 'z')    ? CharKind::letter
                                                           : CharKind::punctuation;
  }
  return table;
}();

// Kind of the code point at `at`, of more than one byte; moves `at` behind it and appends it in
// lower case to `lower`. Requires: well-formed UTF-8.
CharKind take_wide(std::string_view text, size_t& at, std::string& lower);

// True if the text may be in another form than NFC: if it has code points past U+02FF.
bool may_need_composing(std::string_view text);
std::string composed(std::string_view text);  // in NFC. Requires: well-formed UTF-8.

// Calls `token(view)` for each word; a view is valid until `token` returns. Requires: well-formed
// UTF-8 in NFC.
template <class F>
void each_word(std::string_view text, std::string& scratch, F&& token) {
  scratch.clear();
  const auto flush = [&] {
    if (!scratch.empty()) token(std::string_view(scratch));
    scratch.clear();
  };
  const auto digit = [&](size_t at) {
    return at < text.size() && text[at] >= '0' && text[at] <= '9';
  };
  for (size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const size_t length = scratch.size();
    CharKind kind = CharKind::none;
    if (byte < 0x80) {
      kind = kAscii.kinds[byte];
      scratch += kAscii.lower[byte];
      ++at;
    } else {
      kind = take_wide(text, at, scratch);
    }
    if (kind == CharKind::letter || kind == CharKind::digit) continue;
    if ((byte == '.' || byte == ',') && digit(at) && at >= 2 && digit(at - 2)) continue;
    const std::string_view last(scratch);
    if (kind == CharKind::punctuation) {
      if (length > 0) token(last.substr(0, length));
      token(last.substr(length));
      scratch.clear();
    } else {
      scratch.resize(length);
      if (kind == CharKind::space) flush();
    }
  }
  flush();
}

// The same for code points. Requires: well-formed UTF-8.
template <class F>
void each_character(std::string_view text, F&& token) {
  for (size_t at = 0; at < text.size();) {
    const size_t n = utf8_length(text[at]);
    token(text.substr(at, n));
    at += n;
  }
}

// The same for what stands between white space. Requires: well-formed UTF-8.
template <class F>
void each_part(std::string_view text, std::string& scratch, F&& token) {
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t here = at;
    const auto byte = static_cast<unsigned char>(text[at]);
    CharKind kind = CharKind::letter;
    if (byte < 0x80) {
      kind = kAscii.kinds[byte];
      ++at;
    } else {
      scratch.clear();
      kind = take_wide(text, at, scratch);
    }
    if (kind != CharKind::space) continue;
    if (here > begin) token(text.substr(begin, here - begin));
    begin = at;
  }
  if (text.size() > begin) token(text.substr(begin));
}

// The tokens of any kind. `scratch` keeps its memory from text to text. Requires: well-formed
// UTF-8.
template <class F>
void each_token(std::string_view text, TokenKind kind, std::string& scratch, F&& token) {
  switch (kind) {
    case TokenKind::words:
      if (may_need_composing(text)) return each_word(composed(text), scratch, token);
      return each_word(text, scratch, token);
    case TokenKind::characters:
      return each_character(text, token);
    case TokenKind::whitespace:
      return each_part(text, scratch, token);
  }
}

}  // namespace troupe

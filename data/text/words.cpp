// Tokens of texts: tokenize(), detokenize() and counts of troupe/text.hpp, and the part of
// data/text/words.hpp beyond ASCII, on utf8proc.
#include "data/text/words.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>

#include "data/lines.hpp"

namespace troupe {
namespace {

const utf8proc_uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const utf8proc_uint8_t*>(text.data());
}

CharKind kind_of(utf8proc_int32_t code) {
  switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharKind::letter;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return CharKind::space;
    case UTF8PROC_CATEGORY_CC:
      return code == 0x85 ? CharKind::space : CharKind::none;
    case UTF8PROC_CATEGORY_CF:
      return CharKind::none;
    default:
      return CharKind::punctuation;
  }
}

// Tokens that detokenize() writes without a space on one side or both.
enum class Joins : uint8_t { neither, left, right, both, quote };

Joins joins_of(std::string_view token) {
  const auto among = [&](std::initializer_list<std::string_view> tokens) {
    return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
  };
  if (among({".", ",", ";", ":", "!", "?", ")", "]", "}", "%", "…", "”"})) return Joins::left;
  if (among({"(", "[", "{", "$", "“", "„", "¿", "¡"})) return Joins::right;
  if (among({"'", "’", "-", "/"})) return Joins::both;
  return token == "\"" ? Joins::quote : Joins::neither;
}

std::string joined_words(std::span<const std::string> tokens) {
  std::string out;
  bool space = false, open = false;  // a space is due; a straight double quote is open
  for (const std::string& token : tokens) {
    const Joins joins = joins_of(token);
    const bool closes = joins == Joins::quote && open;
    if (space && joins != Joins::left && joins != Joins::both && !closes) out += ' ';
    out += token;
    space = joins == Joins::neither || joins == Joins::left || closes;
    if (joins == Joins::quote) open = !open;
  }
  return out;
}

void add(WordCounts& counts, std::string_view word, int64_t count) {
  const auto found = counts.find(word);
  if (found != counts.end())
    found->second += count;
  else
    counts.emplace(word, count);
}

}  // namespace

CharKind take_wide(std::string_view text, size_t& at, std::string& lower) {
  utf8proc_int32_t code = 0;
  at += static_cast<size_t>(utf8proc_iterate(
      bytes_of(text) + at, static_cast<utf8proc_ssize_t>(text.size() - at), &code));
  utf8proc_uint8_t small[4];
  const auto n = utf8proc_encode_char(utf8proc_tolower(code), small);
  lower.append(reinterpret_cast<const char*>(small), static_cast<size_t>(n));
  return kind_of(code);
}

bool may_need_composing(std::string_view text) {
  // The first bytes of U+0300 and later code points are at least 0xCC.
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) >= 0xCC; });
}

std::string composed(std::string_view text) {
  utf8proc_uint8_t* made = nullptr;
  const auto n = utf8proc_map(bytes_of(text), static_cast<utf8proc_ssize_t>(text.size()), &made,
                              static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owner(made, std::free);
  if (n < 0) throw Error(Errc::out_of_memory, "cannot compose a text: ", utf8proc_errmsg(n));
  return {reinterpret_cast<const char*>(made), static_cast<size_t>(n)};
}

std::vector<std::string> tokenize(std::string_view text, TokenKind kind) {
  check_utf8(text, "the text");
  std::vector<std::string> tokens;
  std::string scratch;
  each_token(text, kind, scratch, [&](std::string_view token) { tokens.emplace_back(token); });
  return tokens;
}

std::string detokenize(std::span<const std::string> tokens, TokenKind kind) {
  if (kind == TokenKind::words) return joined_words(tokens);
  std::string out;
  for (const std::string& token : tokens) {
    if (kind == TokenKind::whitespace && !out.empty()) out += ' ';
    out += token;
  }
  return out;
}

void add_words(WordCounts& counts, std::string_view text, TokenKind kind) {
  check_utf8(text, "the text");
  std::string scratch;
  each_token(text, kind, scratch, [&](std::string_view token) { add(counts, token, 1); });
}

WordCounts count_words(const std::vector<std::string>& paths, TokenKind kind) {
  WordCounts counts;
  std::string scratch;
  for (const std::string& path : list_files(local_files(), paths, "count_words")) {
    Lines lines(path);
    for (std::string_view line; lines.next(line);) {
      if (invalid_utf8(line) != line.npos)
        check_utf8(line, detail::concat(path, ": line ", lines.number()));
      each_token(line, kind, scratch, [&](std::string_view token) { add(counts, token, 1); });
    }
    if (kind == TokenKind::characters && lines.number() > 0) add(counts, "\n", lines.number());
  }
  return counts;
}

}  // namespace troupe

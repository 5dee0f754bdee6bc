// Words: their characters, lists of them, and the known name nearest to a misspelt one.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

inline bool is_word_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// The characters of a node's name with its scopes.
inline bool is_name_character(char c) {
  return is_word_character(c) || c == '.' || c == '-' || c == '/';
}

// The Levenshtein distance in half edits: a change of a letter's case counts half an edit.
inline int edit_distance(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  std::vector<int> row(b.size() + 1);  // distances of the first i letters of a to the first j of b
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(2 * j);
  for (size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(2 * i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int change = a[i - 1] == b[j - 1] ? 0 : lower(a[i - 1]) == lower(b[j - 1]) ? 1 : 2;
      const int best = std::min({row[j] + 2, row[j - 1] + 2, diagonal + change});
      diagonal = row[j];
      row[j] = best;
    }
  }
  return row.back();
}

// "a, b, c"
inline std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

// "; did you mean MatMul?", or an empty text if half of the letters would have to change. The first
// of equally near names wins.
template <class Names>
std::string did_you_mean(std::string_view wanted, const Names& known) {
  std::string_view nearest;
  int distance = std::max(3, static_cast<int>(wanted.size()));  // always allows one edit
  for (std::string_view name : known) {
    const int d = edit_distance(wanted, name);
    if (d >= distance) continue;
    distance = d;
    nearest = name;
  }
  return nearest.empty() ? std::string() : "; did you mean " + std::string(nearest) + "?";
}

}  // namespace troupe

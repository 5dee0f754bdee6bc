// Patterns of names, in which * stands for any text: "conv1/w", "conv*", "*/bias".
#pragma once

#include <string_view>

namespace troupe {

// True if the pattern is the whole name. Takes at most the product of their lengths.
inline bool matches_name(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0, star = pattern.npos, from = 0;  // the newest *, and the name behind its text
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*')
      star = p++, from = n;
    else if (p < pattern.size() && pattern[p] == name[n])
      ++p, ++n;
    else if (star != pattern.npos)
      p = star + 1, n = ++from;
    else
      return false;
  }
  return pattern.find_first_not_of('*', p) == pattern.npos;
}

// The entry for a name; null: none. A whole name comes before a pattern with *, a longer pattern
// before a shorter one, and the first of two that are equally long. `pattern_of(entry)`: its
// pattern.
template <class Entries, class PatternOf>
auto entry_for(const Entries& entries, std::string_view name, PatternOf pattern_of) -> const
    typename Entries::value_type* {
  const auto narrower = [](std::string_view a, std::string_view b) {
    const bool whole = a.find('*') == a.npos, other_whole = b.find('*') == b.npos;
    return whole != other_whole ? whole : a.size() > b.size();
  };
  const typename Entries::value_type* best = nullptr;
  for (const auto& entry : entries)
    if (matches_name(pattern_of(entry), name) &&
        (!best || narrower(pattern_of(entry), pattern_of(*best))))
      best = &entry;
  return best;
}

}  // namespace troupe

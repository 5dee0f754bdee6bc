// Patterns of names, in which * stands for any text: "conv1/w", "conv*", "*/bias".
#pragma once

#include <string_view>

namespace troupe {

// True if the pattern is the whole name.
inline bool matches_name(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == pattern.npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  for (size_t i = star; i <= name.size(); ++i)
    if (matches_name(pattern.substr(star + 1), name.substr(i))) return true;
  return false;
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

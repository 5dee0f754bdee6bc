// Texts as words, and words as a text.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

// The words of `text` between the characters of `between`; none is empty.
inline std::vector<std::string> words_of(const std::string& text, const char* between = " \t\n\r") {
  std::vector<std::string> out;
  for (size_t begin = 0; (begin = text.find_first_not_of(between, begin)) != text.npos;) {
    const size_t end = std::min(text.find_first_of(between, begin), text.size());
    out.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return out;
}

inline std::string joined(const std::vector<std::string>& words, const char* between = " ") {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : between) + word;
  return out;
}

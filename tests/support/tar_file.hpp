// Tar archives that tests of readers are given.
#pragma once

#include <cstdio>
#include <string>

namespace troupe {

struct TarForm {
  char type = '0';
  std::string magic = std::string(
      "ustar\0"
      "00",
      8);
  std::string prefix = {};
  std::string size = {};  // the field, if another than that of the content
};

// A header and the content of one entry.
inline std::string tar_entry(const std::string& name, const std::string& content,
                             const TarForm& form = {}) {
  std::string header(512, '\0');
  // g++ 12 sees a longer text than there is, if std::string::replace() does this.
  const auto put = [&](size_t at, const std::string& field) {
    for (const char c : field) header.at(at++) = c;
  };
  put(0, name);
  put(100, "0000644");
  char size[13];
  std::snprintf(size, sizeof size, "%011zo", content.size());
  put(124, form.size.empty() ? std::string(size, 11) : form.size);
  put(148, "        ");
  header[156] = form.type;
  put(257, form.magic);
  put(345, form.prefix);
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  char text[8];
  std::snprintf(text, sizeof text, "%06o", sum);
  put(148, std::string(text, 7));
  return header + content + std::string((512 - content.size() % 512) % 512, '\0');
}

inline const std::string kTarEnd(1024, '\0');

}  // namespace troupe

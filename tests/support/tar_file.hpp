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
  header.replace(0, name.size(), name);
  header.replace(100, 7, "0000644");
  char size[13];
  std::snprintf(size, sizeof size, "%011zo", content.size());
  if (form.size.empty())
    header.replace(124, 11, size);
  else
    header.replace(124, form.size.size(), form.size);
  header.replace(148, 8, "        ");
  header[156] = form.type;
  header.replace(257, form.magic.size(), form.magic);
  header.replace(345, form.prefix.size(), form.prefix);
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  char text[8];
  std::snprintf(text, sizeof text, "%06o", sum);
  header.replace(148, 7, text, 7);
  return header + content + std::string((512 - content.size() % 512) % 512, '\0');
}

inline const std::string kTarEnd(1024, '\0');

}  // namespace troupe

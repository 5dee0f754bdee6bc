// A table of words: columns as wide as their widest word, the last one as it comes.
#pragma once

#include <algorithm>
#include <iomanip>
#include <iostream>
#include <string>
#include <vector>

// Requires: rows of one length. `right`: from this column on words stand at the right edge.
inline void print_table(const std::vector<std::vector<std::string>>& rows, size_t right = ~0u) {
  std::vector<size_t> widths(rows.empty() ? 0 : rows[0].size());
  for (const auto& row : rows)
    for (size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const auto width = static_cast<int>(widths[i]);
      if (i > 0) std::cout << "  ";
      if (i >= right)
        std::cout << std::right << std::setw(width) << row[i];
      else if (i + 1 < row.size())
        std::cout << std::left << std::setw(width) << row[i];
      else
        std::cout << row[i];
    }
    std::cout << "\n";
  }
}

// Draws the first values of rows: Philox of (row, column, attempt), keyed by name and seed.
#include "training/rules/first_rows.hpp"

#include <algorithm>

#include "graph/base/philox.hpp"

namespace troupe {
namespace {

constexpr uint32_t kAttemptsMax = 255;  // all are rejected with probability 10^-145

PhiloxCounter words_of(uint64_t key, int64_t row, int64_t column, uint32_t attempt) {
  const auto r = static_cast<uint64_t>(row);
  return philox({static_cast<uint32_t>(r), static_cast<uint32_t>(r >> 32),
                 static_cast<uint32_t>(column), attempt},
                {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
}

double normal(uint64_t key, int64_t row, int64_t column) {
  for (uint32_t attempt = 0; attempt < kAttemptsMax; ++attempt)
    if (const auto z = normal_attempt(words_of(key, row, column, attempt))) return *z;
  return 0;
}

}  // namespace

FirstRowValues::FirstRowValues(const FirstRows& rows, std::string_view table)
    : rows_(rows), key_(fnv1a64(table) ^ static_cast<uint64_t>(rows.seed)) {}

template <class T>
void FirstRowValues::fill(int64_t row, int64_t width, T* to) const {
  switch (rows_.kind) {
    case FirstRows::Kind::constant:
      std::fill_n(to, width, static_cast<T>(rows_.a));
      return;
    case FirstRows::Kind::uniform:
      for (int64_t j = 0; j < width; j += 2) {
        const PhiloxCounter words = words_of(key_, row, j, 0);
        for (int64_t k = 0; k < std::min<int64_t>(2, width - j); ++k) {
          const auto at = static_cast<size_t>(2 * k);
          const double part = unit_double(words[at], words[at + 1]);
          to[j + k] = static_cast<T>(rows_.a + (rows_.b - rows_.a) * part);
        }
      }
      return;
    case FirstRows::Kind::normal:
      for (int64_t j = 0; j < width; ++j)
        to[j] = static_cast<T>(rows_.a + rows_.b * normal(key_, row, j));
      return;
  }
}

template void FirstRowValues::fill(int64_t, int64_t, float*) const;
template void FirstRowValues::fill(int64_t, int64_t, double*) const;

}  // namespace troupe

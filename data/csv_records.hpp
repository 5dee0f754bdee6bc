// CsvRecords: the records of a CSV file (RFC 4180), plain or gzipped, and the numbers in their
// fields. Used by one thread.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/lines.hpp"

namespace troupe {

class CsvRecords {
 public:
  explicit CsvRecords(const std::string& path, int64_t bytes_max) : lines_(path, bytes_max) {}
  CsvRecords(std::shared_ptr<const RandomFile> file, char separator)
      : lines_(std::move(file)), separator_(separator) {}

  // The fields of the next record, quoted ones without their quotes; false at the end of the file.
  // A quoted field may have line ends in it, which become LF. Throws: as Lines::next();
  // Error(bad_data) for quotes that do not fit.
  bool next(std::vector<std::string>& fields);

  const std::string& path() const { return lines_.path(); }
  template <class... Parts>
  Error wrong(const Parts&... parts) const {  // with the first line of the last record
    return Error(Errc::bad_data, path(), ": line ", line_, ": ", detail::concat(parts...));
  }

 private:
  Lines lines_;
  const char separator_ = ',';
  int64_t line_ = 0;  // where the last record begins, from 1
};

// A field without spaces around it, and without a plus, which from_chars() does not accept.
std::string_view trimmed(std::string_view field);

template <class T>
std::optional<T> number_of(std::string_view field) {
  const std::string_view text = trimmed(field);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A finite number that is one as f32, too.
std::optional<float> finite_of(std::string_view field);
// A whole number, also if it is written as "3.0".
std::optional<int64_t> whole_of(std::string_view field);

}  // namespace troupe

// Lines: the lines of a file, plain or gzipped, one after the other. Used by one thread.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "data/bytes.hpp"
#include "troupe/error.hpp"

namespace troupe {

class Lines {
 public:
  static constexpr size_t kLineBytesMax = 16 << 20;  // a million features
  static constexpr int64_t kAnySize = std::numeric_limits<int64_t>::max();

  // `bytes_max`: of the unpacked file. Throws: as ByteSource.
  explicit Lines(std::shared_ptr<const RandomFile> file, int64_t bytes_max = kAnySize,
                 size_t line_bytes_max = kLineBytesMax)
      : file_(std::move(file)), bytes_max_(bytes_max), line_bytes_max_(line_bytes_max) {}
  explicit Lines(const std::string& path, int64_t bytes_max = kAnySize)
      : Lines(local_files().open(path), bytes_max) {}

  // The next line without its end (LF or CRLF), and the first one without a byte order mark, valid
  // until the next call; false at the end of the file. Throws: Error(bad_data) for a file or a line
  // past its limit; as ByteSource::read().
  bool next(std::string_view& line);

  const std::string& path() const { return file_.path(); }
  int64_t number() const { return number_; }  // of the last line, from 1
  template <class... Parts>
  Error wrong(const Parts&... parts) const {  // with the number of the last line
    return Error(Errc::bad_data, path(), ": line ", number_, ": ", detail::concat(parts...));
  }

 private:
  bool more();
  void check_length(size_t bytes) const;

  ByteSource file_;
  int64_t bytes_max_;
  size_t line_bytes_max_;
  std::string buffer_;
  size_t at_ = 0;  // of the next line in buffer_
  int64_t number_ = 0;
};

}  // namespace troupe

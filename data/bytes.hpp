// ByteSource: the unpacked bytes of a file, plain or gzipped, told apart by content. Used by one
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "data/files.hpp"

namespace troupe {

class ByteSource {
 public:
  static constexpr size_t kBuffer = 256 << 10;

  // A local file. Throws: Error(io) if it cannot be read or is no regular file.
  explicit ByteSource(const std::string& path);
  // Reads `buffer` bytes of the file at once.
  explicit ByteSource(std::shared_ptr<const RandomFile> file, size_t buffer = kBuffer);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  // Reads up to `into.size()` bytes; fewer only at the end. Throws: Error(io), or Error(bad_data)
  // for a damaged .gz.
  int64_t read(std::span<char> into);
  // Reads past up to `count` bytes, fewer only at the end, and returns their number. A plain file
  // is not read for it.
  int64_t skip(int64_t count);

  const std::string& path() const { return file_->path(); }
  bool is_gzip() const;
  int64_t offset() const { return offset_; }  // unpacked bytes returned or skipped so far
  // The most unpacked bytes that the file can hold: its size, or for a .gz its size times deflate's
  // best ratio.
  int64_t bytes_max() const;

 private:
  struct Packed;
  int64_t read_plain(std::span<char> into);
  int64_t read_gzip(std::span<char> into);

  std::shared_ptr<const RandomFile> file_;
  std::unique_ptr<Packed> packed_;
  int64_t offset_ = 0;
};

}  // namespace troupe

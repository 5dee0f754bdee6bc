// ByteSource: the unpacked bytes of a file, plain or gzipped, told apart by content. Used by one
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace troupe {

class ByteSource {
 public:
  // Throws: Error(io) if the file cannot be read or is no regular file.
  explicit ByteSource(const std::string& path);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  // Reads up to `into.size()` bytes; fewer only at the end. Throws: Error(io), or Error(bad_data)
  // for a damaged .gz.
  int64_t read(std::span<char> into);

  const std::string& path() const { return path_; }
  int64_t offset() const { return offset_; }  // unpacked bytes returned so far
  // The most unpacked bytes that the file can hold: its size, or for a .gz its size times deflate's
  // best ratio.
  int64_t bytes_max() const { return bytes_max_; }

 private:
  struct Gzip;
  std::string path_;
  std::unique_ptr<Gzip> gzip_;
  int64_t offset_ = 0, bytes_max_ = 0;
};

}  // namespace troupe

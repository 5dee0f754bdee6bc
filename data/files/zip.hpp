// Zip archives (PKWARE's APPNOTE 6.3): entries that are stored or deflated, with the 64-bit sizes
// of zip64. Nothing of an archive is unpacked before its sizes agree with each other and with the
// file.
// Owner: the caller owns a reader, which lives longer than what it opens, and a writer.
// Thread: any, one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/files/byte_reader.hpp"
#include "data/files/disk.hpp"

namespace troupe {

struct ZipEntry {
  std::string name;
  bool deflated = false;
  uint32_t crc = 0;               // of the unpacked bytes
  int64_t packed = 0, size = 0;   // bytes in the file; unpacked
  int64_t header = 0, begin = 0;  // offset of its header; of its first byte
};

class ZipReader {
 public:
  // Throws: Error(bad_data) with `path` and offset or entry for: no archive, an archive in several
  // parts, encryption, other methods, names that stand twice, sizes beyond the file or beyond the
  // best ratio of deflate, entries that overlap.
  ZipReader(std::unique_ptr<ReadFile> file, std::string path);
  const std::vector<ZipEntry>& entries() const { return entries_; }  // in the order of the file
  std::unique_ptr<ByteReader> open(const ZipEntry& entry) const;

 private:
  void read_directory(int64_t begin, int64_t size, int64_t count);
  void find_begins(int64_t directory);

  std::unique_ptr<ReadFile> file_;
  std::string path_;
  std::vector<ZipEntry> entries_;
};

class ZipWriter {
 public:
  explicit ZipWriter(AtomicFile& file) : file_(file) {}
  // The bytes of an entry are those of `parts`, one after the other.
  void add(const std::string& name, const std::vector<std::span<const std::byte>>& parts,
           bool deflated);
  void finish();  // writes the directory

 private:
  void write(const std::string& bytes);

  AtomicFile& file_;
  std::vector<ZipEntry> entries_;
  int64_t at_ = 0;
};

}  // namespace troupe

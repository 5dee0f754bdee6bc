// RecordFile: the file of one part of a record and one shard; record.hpp says how they form one. It
// has a head and grows by chunks, each with its length and a crc32c of length and content.
// Owner: the actor of the shard. Thread: a disk thread; wait() and give_up(): any.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/files/disk.hpp"
#include "training/parameters/layout.hpp"
#include "training/rules/order_buffer.hpp"

namespace troupe {

inline constexpr int kRecordFormat = 1;
inline constexpr std::string_view kRecordMagic = "TROUPEr1";  // a file begins with it

// The head of a file.
struct RecordPart {
  int64_t part = 0, begin = 0;  // its number, from 1 on, and its first step
  int32_t shard = 0, shards = 1;
  std::string rule;           // of its first step, as to_string() writes it
  std::vector<Slice> slices;  // of the shard: id, parameter, offset and size
};
std::string text_of(const RecordPart& part);
// "part-000001.shard-0-of-2.record"
std::string record_file_name(int64_t part, int32_t shard, int32_t shards);
// A chunk as it is in the file.
std::string framed(const std::string& payload);

class RecordFile {
 public:
  RecordFile(Disk& disk, std::string dir, RecordPart part);
  const std::string& path() const { return path_; }
  void give_up() { whole_ = false; }  // nothing is written any more
  // So many bytes wait for the disk, at most `most` of them; false: nothing is written any more.
  bool wait(int64_t bytes, int64_t most) {
    if (whole_ && (waiting_ += bytes) > most) whole_ = false;
    return whole_;
  }
  bool taken(int64_t bytes) {
    waiting_ -= bytes;
    return whole_;
  }
  // Throws: Error(io). begin() once, before append(), which syncs a chunk that says how far the
  // record is whole.
  void begin();
  void append(const OrderChunk& chunk);

 private:
  void write(const std::string& payload);

  Disk& disk_;
  const std::string dir_;
  const RecordPart part_;
  const std::string path_;
  std::unique_ptr<WriteFile> file_;
  std::atomic<bool> whole_ = true;
  std::atomic<int64_t> waiting_ = 0;  // bytes
};

}  // namespace troupe

// safetensors files (https://github.com/huggingface/safetensors): 8 bytes of header length, a JSON
// header, the elements. The disk is untrusted: every length is checked against the file before
// memory is allocated.
// Owner: the caller owns a reader. Thread: any, one at a time.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/files/disk.hpp"
#include "troupe/tensor.hpp"

namespace troupe {

// Headers written here take about 300 bytes a slice; the format's own limit is 100 MB.
inline constexpr int64_t kSafetensorsHeaderMax = int64_t{32} << 20;
inline constexpr const char* kSafetensorsMetadata = "__metadata__";  // the key of its header

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::none;
  Shape shape;
  int64_t begin = 0, end = 0;  // bytes, from the start of the file
};

// The bytes before the elements of tensors, which follow in order without gaps. The places that
// entries have are not read.
std::string safetensors_header(const std::vector<SafetensorsEntry>& tensors,
                               const std::map<std::string, std::string>& metadata);
std::string safetensors_header(const std::vector<std::pair<std::string, Tensor>>& tensors,
                               const std::map<std::string, std::string>& metadata);

class SafetensorsReader {
 public:
  // Throws: Error(io) if the file cannot be read; Error(bad_data) with file, offset, expected and
  // found for: a header that is longer than the file or the limit, broken JSON, duplicate keys,
  // unknown dtypes, shapes and offsets that disagree, tensors that overlap or leave holes, bytes
  // left over.
  SafetensorsReader(Disk& disk, std::string path);
  SafetensorsReader(std::unique_ptr<ReadFile> file, std::string path);

  const std::string& path() const { return path_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }  // by offset
  const SafetensorsEntry* find(const std::string& name) const;

  // Reads elements [offset, offset + count) of an entry into `into`, of the same dtype, from its
  // element `at` on. Requires: they fit.
  void read(const SafetensorsEntry& entry, int64_t offset, int64_t count, Tensor& into,
            int64_t at) const;

 private:
  void parse(const std::string& header, int64_t data_begin);

  std::string path_;
  std::unique_ptr<ReadFile> file_;
  std::vector<SafetensorsEntry> entries_;
  std::unordered_map<std::string, size_t> by_name_;  // the index of an entry
  std::map<std::string, std::string> metadata_;
};

}  // namespace troupe

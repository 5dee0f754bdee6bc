// The readers of bytes that others wrote, as functions of any bytes. A target returns, or throws an
// Error that is not internal: everything else is a finding.
// Owner: none, functions only. Thread: any.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/error.hpp"

namespace troupe::fuzz {

using Seeds = std::vector<std::string>;

struct Target {
  std::string_view name;
  void (*run)(std::string_view bytes);
  Seeds (*seeds)();  // inputs that our own writers made
};

Target addresses_target();
Target basp_target();
Target cluster_spec_target();
Target codec_target();
Target csv_target();
Target example_target();
Target flags_target();
Target frames_target();
Target graph_proto_target();
Target graph_text_target();
Target greeting_target();
Target idx_target();
Target images_target();
Target manifest_target();
Target npy_target();
Target npz_target();
Target records_target();
Target safetensors_target();
Target source_target();

std::vector<Target> all_targets();
// Runs a target. An Error that is not internal is swallowed.
void run(const Target& target, std::string_view bytes);

// The library's own promise about a value that it has read. Throws: InternalError.
inline void promise(bool holds, const char* what) {
  if (!holds) throw InternalError("a promise is broken: ", what);
}

// Takes numbers and texts off the front of an input; zeros and nothing behind its end.
class Input {
 public:
  explicit Input(std::string_view bytes) : rest_(bytes) {}
  bool empty() const { return rest_.empty(); }
  template <class T>
  T number() {
    T out{};
    const std::string_view from = text(sizeof out);
    for (size_t i = 0; i < from.size(); ++i)
      out = static_cast<T>(out | static_cast<T>(static_cast<uint8_t>(from[i])) << (8 * i));
    return out;
  }
  std::string_view text(size_t size) {
    const std::string_view out = rest_.substr(0, size);
    rest_.remove_prefix(out.size());
    return out;
  }
  std::string_view rest() { return text(rest_.size()); }

 private:
  std::string_view rest_;
};

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}
std::string text_of(std::span<const std::byte> bytes);

// A file of these bytes that has a path and no folder. Lives until the end of its scope.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  const std::string& path() const { return path_; }
  std::string read() const;

 private:
  int fd_;
  std::string path_;
};

}  // namespace troupe::fuzz

// Segments: memory that one process writes and others of its machine read in place. A segment has
// no name: its descriptor goes over a local socket, and the kernel frees it with the last mapping.
//
// It is sealed: its size is constant, so no access fails, and only the mapping of its maker can be
// written.
// Owner: shared by its users. Thread: any.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "devices/memory/descriptor.hpp"

namespace troupe {

// A mapping of a file, which ends with its owner.
class Mapping {
 public:
  Mapping(void* address, int64_t bytes) : address_(static_cast<char*>(address)), bytes_(bytes) {}
  Mapping(const Mapping&) = delete;
  ~Mapping();
  char* address() const { return address_; }
  int64_t bytes() const { return bytes_; }

 private:
  char* const address_;
  const int64_t bytes_;
};

// A segment of this process.
struct Segment {
  Descriptor descriptor;
  std::unique_ptr<const Mapping> mapping;  // for writing

  // A segment whose pages exist and are zero; or null, with the reason.
  static std::unique_ptr<const Segment> make(int64_t bytes, std::string& why);
};

// Maps a segment of another process for reading. Otherwise returns null, the reason, and whether
// the process that passed the descriptor is to blame: it is no sealed segment of `bytes`.
std::shared_ptr<const Mapping> map_segment(const Descriptor& descriptor, int64_t bytes,
                                           std::string& why, bool& is_bad);

}  // namespace troupe

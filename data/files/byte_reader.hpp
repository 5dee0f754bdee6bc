// ByteReader: the bytes of a file, or of an entry of an archive, one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "troupe/error.hpp"

namespace troupe {

class ByteReader {
 public:
  virtual ~ByteReader() = default;
  // Fills `into`. Requires: at most left() bytes. Throws: Error(io), Error(bad_data).
  virtual void read(std::span<std::byte> into) = 0;
  virtual int64_t left() const = 0;
  virtual int64_t offset() const = 0;  // bytes that were read
  // Checks that all bytes were read and are whole. Throws: Error(bad_data).
  virtual void finish() = 0;
  virtual std::string place() const = 0;  // "weights.npz: entry fc/w.npy"
  template <class... Parts>
  Error wrong(int64_t at, const Parts&... parts) const {
    return Error(Errc::bad_data, place(), ": at byte ", at, ": ", detail::concat(parts...));
  }
};

}  // namespace troupe

// Frame: the header of a frame in its wire layout. Shared by the send and receive halves of Link.
// Owner: the code that builds or reads the frame. Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "net/wire/crc32c.hpp"
#include "net/link/link.hpp"

namespace troupe {

struct HeaderBytes {
  uint8_t channel;
  uint8_t flags;
  uint16_t type;
  uint32_t length;
  uint64_t target;
  uint64_t sender;
  uint32_t payload_crc;
  uint32_t header_crc;  // of all bytes before it
};
static_assert(sizeof(HeaderBytes) == kFrameHeader);

template <class T>
std::span<const std::byte> as_bytes_of(const T& value) {
  return {reinterpret_cast<const std::byte*>(&value), sizeof value};
}

inline uint32_t crc_of_header(const HeaderBytes& header) {
  return crc32c(as_bytes_of(header).first(offsetof(HeaderBytes, header_crc)));
}

}  // namespace troupe

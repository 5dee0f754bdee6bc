// Hand-made frames, valid and invalid, for tests of frames that a peer may send.
#pragma once

#include <cstring>
#include <functional>
#include <vector>

#include "net/link/frame.hpp"

namespace troupe {

using Bytes = std::vector<std::byte>;

inline Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline Bytes frame(Channel channel, uint16_t type, const Bytes& payload, uint8_t flags = 0) {
  HeaderBytes header{};
  header.channel = static_cast<uint8_t>(channel);
  header.flags = flags;
  header.type = type;
  header.length = static_cast<uint32_t>(payload.size());
  header.payload_crc = crc32c(payload);
  header.header_crc = crc_of_header(header);
  const auto bytes = as_bytes_of(header);
  return Bytes(bytes.begin(), bytes.end()) + payload;
}

// The frame with an edited header and a checksum that matches it.
inline Bytes resealed(Bytes whole, const std::function<void(HeaderBytes&)>& change) {
  HeaderBytes header;
  std::memcpy(&header, whole.data(), sizeof header);
  change(header);
  header.header_crc = crc_of_header(header);
  std::memcpy(whole.data(), &header, sizeof header);
  return whole;
}

// A message on the small channel.
inline Bytes small_frame(const Encoded& message, const Bytes& elements = {}) {
  Bytes payload;
  Writer writer(payload);
  writer.number(static_cast<uint32_t>(message.header.size()));
  writer.bytes(message.header.data(), message.header.size());
  return frame(Channel::small, message.kind, payload + elements);
}

}  // namespace troupe

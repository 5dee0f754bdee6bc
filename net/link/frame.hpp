// Frames: the units of a link's byte stream, on four channels, in their wire layout.
//
// A frame has a header of 32 bytes. The channels, most urgent first: control (confirm, heartbeat,
// credit, members, loans that end), small (messages with at most kInlineMax bytes of elements, or
// with a loan instead of them: lent_tensors.hpp), caf (BASP), bulk (elements of large tensors, in
// chunks of kChunk, one tensor after the other). Frames of the more
// urgent channels go between two chunks. Every frame except a chunk has a crc32c of its payload;
// chunks have one crc32c over the whole tensor if the message wants it.
//
// Owner: the code that builds or reads the frame. Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "net/wire/codec.hpp"
#include "devices/memory/segment.hpp"
#include "graph/base/crc32c.hpp"

namespace troupe {

inline constexpr size_t kChunk = 256 << 10;     // bulk bytes before other frames may go
inline constexpr size_t kInlineMax = 16 << 10;  // elements that travel inside a small frame
inline constexpr size_t kFrameHeader = 32;
inline constexpr size_t kFrameMax =
    96 << 10;  // payload of any frame but a chunk; holds a message header and inline elements

enum class Channel : uint8_t { control = 0, small, caf, bulk };
// The payload of `returned` is numbers of loans, that of `forgotten` numbers of segments, u64 each.
enum class Control : uint16_t {
  confirm = 0,
  heartbeat,
  credit,
  members,
  leaving,
  returned,
  forgotten
};
inline constexpr int kChannels = 4;
inline constexpr uint8_t kFlagged = 1;  // HeaderBytes::flags

struct HeaderBytes {
  uint8_t channel;
  uint8_t flags;  // 1: a chunk of the bulk channel, or a loan on the small channel
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

// A run of bytes to write: owned bytes, or elements of a tensor.
struct Piece {
  std::vector<std::byte> owned;
  Tensor tensor;
  std::span<const std::byte> view;
  std::shared_ptr<const Segment> segment;  // its descriptor goes with the first byte; or null
};

// A frame with the payload `payload`, then `more`.
inline Piece make_frame(Channel channel, uint16_t type, uint64_t target, uint64_t sender,
                        std::span<const std::byte> payload, std::span<const std::byte> more = {},
                        uint8_t flags = 0) {
  HeaderBytes header{};
  header.channel = static_cast<uint8_t>(channel);
  header.flags = flags;
  header.type = type;
  header.length = static_cast<uint32_t>(payload.size() + more.size());
  header.target = target;
  header.sender = sender;
  header.payload_crc = crc32c(more, crc32c(payload));
  header.header_crc = crc_of_header(header);
  Piece out;
  out.owned.reserve(kFrameHeader + header.length);
  for (std::span<const std::byte> part : {as_bytes_of(header), payload, more})
    out.owned.insert(out.owned.end(), part.begin(), part.end());
  return out;
}

inline Piece control_frame(Control type, std::span<const std::byte> payload = {}) {
  return make_frame(Channel::control, static_cast<uint16_t>(type), 0, 0, payload);
}

}  // namespace troupe

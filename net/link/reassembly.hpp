// Reassembly: the bulk message that is arriving on a link, chunk by chunk. Its tensor is written in
// its own memory; if there was none, its elements are counted and dropped. A large one gets its
// memory behind its first chunk, so that headers alone take none.
//
// Owner: the link. Thread: the net thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "net/wire/codec.hpp"

namespace troupe {

// A message as it arrived. Its header is valid during the call that hands it over.
struct Received {
  uint64_t target = 0, sender = 0;
  uint16_t kind = 0;
  std::span<const std::byte> header;
  Tensor payload;
  // Not ok: there was no memory for the tensor, for this reason.
  Errc code = Errc::ok;
  std::string text;
};

inline constexpr int64_t kLargeClaim = 16 << 20;  // bytes; above, the first chunk comes first

class Reassembly {
 public:
  bool active() const { return active_; }
  // Requires: not active, and a claim with elements. Copies the message's header. The message has
  // its memory, or an error, unless it is above kLargeClaim.
  void begin(Received message, const TensorClaim& claim);
  // Returns false if the chunk belongs to no tensor. `transfer`: the number of the message.
  bool begin_chunk(uint64_t transfer, size_t length);
  size_t chunk_left() const { return chunk_left_; }
  // True once the first chunk of a large message is here.
  bool needs_memory() const { return waits_ && chunk_left_ == 0 && offset_ > 0; }
  const TensorClaim& claim() const { return claim_; }
  // The payload, or the reason why there is none.
  void give(Tensor payload, Errc code, std::string text);
  // Bytes of memory that the message holds.
  int64_t held_bytes() const { return message_.payload.defined() ? claim_.bytes : 0; }
  // The memory for the rest of the chunk; empty if its elements are dropped.
  std::span<std::byte> room();
  // The next bytes of the chunk, in room() or elsewhere. Returns true if they are the last ones of
  // the message.
  bool take(std::span<const std::byte> bytes);
  // Ends the message. Returns nothing if its elements were damaged on the way.
  std::optional<Received> finish();

 private:
  bool active_ = false;
  uint32_t next_transfer_ = 0;
  Received message_;
  std::vector<std::byte> header_;  // of the message
  TensorClaim claim_;
  size_t offset_ = 0;      // bytes of elements received so far
  size_t chunk_left_ = 0;  // bytes left of the current chunk
  uint32_t crc_ = 0;
  bool waits_ = false;            // for its memory; chunks go into `first_`
  std::vector<std::byte> first_;  // the first chunk of a large message
};

}  // namespace troupe

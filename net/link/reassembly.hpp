// Reassembly: the bulk message that is arriving on a link, chunk by chunk. Its tensor is written in
// its own memory; if there was none, its elements are counted and dropped.
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

class Reassembly {
 public:
  bool active() const { return active_; }
  // Requires: not active, and a claim with elements. Copies the message's header.
  void begin(Received message, const TensorClaim& claim);
  // Returns false if the chunk belongs to no tensor. `transfer`: the number of the message.
  bool begin_chunk(uint64_t transfer, size_t length);
  size_t chunk_left() const { return chunk_left_; }
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
};

}  // namespace troupe

// SendQueue: the frames that wait to be sent to one peer, by channel, bounded in bytes. WriteQueue:
// the frames that are being written, in the order of writing.
//
// Owner: FrameSender. Thread: one at a time.
#pragma once

#include <deque>

#include "net/link/frame.hpp"
#include "net/link/seams.hpp"
#include "net/link/window.hpp"

namespace troupe {

inline constexpr int64_t kBulkQueueMax =
    int64_t{1} << 30;  // tensor bytes queued for one peer; a single tensor always fits
inline constexpr int64_t kSmallQueueMax =
    64 << 20;  // bytes of small and control frames queued for one peer
inline constexpr int64_t kCafQueueMax =
    128 << 20;  // BASP bytes queued; above it the link ends, as CAF has no backpressure

class WriteQueue {
 public:
  void push(Piece piece, Channel channel);
  // Offers the first segments to the connection, in one gathered write. Returns the bytes that it
  // took; `all` becomes false if it did not take all that was offered.
  size_t write(Connection& connection, bool& all);
  void written(size_t bytes);
  bool empty() const { return pieces_.empty(); }
  bool is_half_full() const;  // of one gathered write
  void clear() { pieces_.clear(); }
  int64_t bytes_out(int channel) const { return bytes_out_[channel]; }

 private:
  std::deque<Piece> pieces_;
  size_t offset_ = 0;  // bytes of the first piece that are written
  int64_t bytes_out_[kChannels] = {};
};

class SendQueue {
 public:
  // These return false, and queue nothing, if there is no room.
  bool add_control(Piece frame);
  bool add_small(Piece frame);
  bool add_bulk(Piece begin, Tensor elements);
  bool add_caf(std::span<const std::byte> bytes);
  void add_urgent(Piece frame);  // on the control channel, without a limit

  // Moves the next frames to `out`, the most urgent ones first, as far as the peer's credit lets
  // them. Returns true if a bulk chunk is among them.
  bool next(WriteQueue& out);
  // The peer grants credit. Returns false if it grants more than there is.
  bool grant(int64_t bulk, int64_t caf);

  bool has_control() const { return !control_.empty(); }
  bool has_bulk() const { return !bulk_.empty(); }
  bool has_room_for_small(size_t bytes) const {
    return small_bytes_ + static_cast<int64_t>(bytes) <= kSmallQueueMax;
  }
  int64_t small_bytes() const { return small_bytes_; }
  int64_t bytes() const { return small_bytes_ + caf_bytes_ + bulk_bytes_; }

 private:
  struct Transfer {  // of a bulk message
    Piece begin;
    Tensor tensor;
    size_t offset = 0;
    uint32_t id = 0;
  };
  bool add_bounded(std::deque<Piece>& to, Piece frame);

  std::deque<Piece> control_, small_, caf_;
  std::deque<Transfer> bulk_;
  int64_t small_bytes_ = 0, caf_bytes_ = 0, bulk_bytes_ = 0;
  SendWindow caf_window_{kCafWindow}, bulk_window_{kBulkWindow};
  uint32_t next_transfer_ = 0;
};

}  // namespace troupe

// Flow control of one channel: the receiver grants credit, so that at most a window of bytes is in
// flight that nobody has read.
//
// Owner: SendQueue and FrameSender. Thread: one at a time.
#pragma once

#include <cstdint>
#include <utility>

namespace troupe {

inline constexpr int64_t kBulkWindow = 16 << 20;
inline constexpr int64_t kCafWindow = 4 << 20;
inline constexpr int64_t kCreditStep = 1 << 20;  // the receiver grants credit in steps of this size

// The sender's side. Between 0 and the window is free.
class SendWindow {
 public:
  explicit SendWindow(int64_t size) : size_(size), free_(size) {}
  // Returns false, and takes nothing, if that many bytes are not free.
  bool take(int64_t bytes) {
    if (bytes > free_) return false;
    free_ -= bytes;
    return true;
  }
  // True if the receiver may grant that much: it is in flight.
  bool may_free(int64_t bytes) const { return bytes >= 0 && bytes <= size_ - free_; }
  void free(int64_t bytes) { free_ += bytes; }

 private:
  int64_t size_, free_;
};

// The receiver's side.
class ReceiveWindow {
 public:
  explicit ReceiveWindow(int64_t size) : size_(size) {}
  // Returns false if the sender exceeds what it was granted.
  bool arrive(int64_t bytes) { return (arrived_ += bytes) <= size_; }
  // Bytes that arrived have been read. Returns the credit to grant now: none, or at least a step.
  int64_t read(int64_t bytes) {
    read_ += bytes;
    if (read_ < kCreditStep) return 0;
    arrived_ -= read_;
    return std::exchange(read_, 0);
  }

 private:
  int64_t size_;
  int64_t arrived_ = 0;  // read or not, and not granted again yet
  int64_t read_ = 0;     // not granted again yet
};

}  // namespace troupe

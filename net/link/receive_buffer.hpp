// ReceiveBuffer: the bytes of a connection that have arrived and are not parsed yet.
// Owner: the link. Thread: the net thread.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

namespace troupe {

class ReceiveBuffer {
 public:
  explicit ReceiveBuffer(size_t size) : bytes_(size) {}
  void resize(size_t size) { bytes_.resize(size); }
  std::span<const std::byte> unread() const {
    return std::span(bytes_).subspan(begin_, end_ - begin_);
  }
  void skip(size_t count) { begin_ += count; }
  // Space for the next bytes, behind the unread ones; filled() says how many came.
  std::span<std::byte> room() {
    if (begin_ == end_) begin_ = end_ = 0;
    if (begin_ > 0 && bytes_.size() - end_ < bytes_.size() / 2) {
      std::memmove(bytes_.data(), bytes_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    return std::span(bytes_).subspan(end_);
  }
  void filled(size_t count) { end_ += count; }

 private:
  std::vector<std::byte> bytes_;
  size_t begin_ = 0, end_ = 0;  // the unread bytes
};

}  // namespace troupe

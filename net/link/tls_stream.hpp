// TlsStream: one end of TLS 1.3 as a machine that turns bytes into bytes. It has no socket and no
// thread.
//
// A stranger costs OpenSSL's state and buffers, 60 KiB at most, until its certificate is verified.
//
// Owner: an encrypted connection. Thread: any, one at a time.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "net/link/receive_buffer.hpp"
#include "net/link/tls.hpp"

namespace troupe {

// The unread rest of several spans.
class Spans {
 public:
  explicit Spans(std::span<const std::span<const std::byte>> parts) : parts_(parts) { settle(); }
  bool empty() const { return parts_.empty(); }
  std::span<const std::byte> front() const { return parts_[0].subspan(offset_); }
  void skip(size_t count) {
    offset_ += count;
    settle();
  }

 private:
  void settle() {
    for (; !parts_.empty() && offset_ == parts_[0].size(); offset_ = 0) parts_ = parts_.subspan(1);
  }
  std::span<const std::span<const std::byte>> parts_;
  size_t offset_ = 0;  // in the first of them
};

class TlsStream {
 public:
  enum class State { shaking, open, ended, failed };

  // `dialled`: the host; empty: this end accepts.
  TlsStream(std::shared_ptr<const TlsIdentity> identity, const std::string& dialled);
  TlsStream(const TlsStream&) = delete;

  ReceiveBuffer& arrived() { return in_; }  // from the network; shake() and read() take from it
  std::span<const std::byte> to_send() const { return std::span(out_).subspan(sent_); }
  void sent(size_t count);

  // Goes on with the handshake.
  void shake();
  // Decrypts into `to`, one record at most. Returns 0 if more bytes must arrive, or the stream is
  // not open.
  size_t read(std::span<std::byte> to);
  // Encrypts a batch from the front of `from` and returns its size. Requires: the stream is open.
  size_t write(Spans& from);
  void end();  // tells the other end that nothing more comes

  State state() const { return state_; }
  const std::string& fault() const { return fault_; }  // of a stream that failed
  // The stream failed before the other end had said anything.
  bool distrusted() const { return state_ == State::failed && !heard_; }
  const CertifiedName* peer() const { return peer_ ? &*peer_ : nullptr; }  // set when open

 private:
  static const BIO_METHOD* bytes_of_stream();
  void met();
  void fail(const std::string& words);
  bool put(const std::byte* bytes, size_t count);

  const std::shared_ptr<const TlsIdentity> identity_;
  const std::string dialled_;
  OwnedSsl ssl_;
  ReceiveBuffer in_;
  std::vector<std::byte> out_, gathered_;
  size_t sent_ = 0;      // bytes at the front of out_
  int64_t unkeyed_ = 0;  // bytes sent since the keys changed
  State state_ = State::shaking;
  bool heard_ = false;
  std::string fault_, peer_fault_;
  std::optional<CertifiedName> peer_;
};

}  // namespace troupe

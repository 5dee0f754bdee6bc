// Link: one connection to one peer: greeting, frames on four channels (frame.hpp), credit
// (window.hpp) and heartbeats. It has no thread and no clock: the connection's handlers bring
// bytes, tick() brings time.
//
// A damaged frame ends the link: its messages are lost, never changed. When a link ends, its queued
// and partly sent messages are lost and the host is told once.
//
// Owner: its host (Mesh::Core or TaskDraw). Thread: start(), tick() and every call of LinkHost on
// the net thread; the send functions and close() on any.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "net/link/borrowed_tensors.hpp"
#include "net/link/frame_sender.hpp"
#include "net/link/handshake.hpp"
#include "net/link/liveness.hpp"
#include "net/link/reassembly.hpp"
#include "net/link/receive_buffer.hpp"

namespace troupe {

inline constexpr size_t kScratch =
    128 << 10;  // read buffer of an established link; holds more than one frame

class Link;

// The decisions that a link leaves to its owner. Called on the net thread; may call the link's
// functions.
class LinkHost {
 public:
  virtual ~LinkHost() = default;
  // The other side has greeted, and proved that it knows the secret. The link continues if the
  // answer is a hello with Refusal::none. Otherwise the acceptor sends the answer as a refusal, and
  // the dialler closes without one. The acceptor may answer a question (ask_task) with any kind of
  // greeting.
  virtual Greeting judge(Link& link, const Greeting& theirs) = 0;
  virtual void established(Link& link) = 0;
  virtual void control(Link& link, Control type, std::span<const std::byte> payload) = 0;
  virtual void caf_bytes(
      Link& link, std::span<const std::byte> bytes) = 0;  // the host calls eaten() for them later
  // The claim of a message, from the header in its frame. Nothing, with the reason in `why`, ends
  // the link.
  virtual std::optional<TensorClaim> claim(uint16_t kind, std::span<const std::byte> header,
                                           std::string& why) = 0;
  virtual void message(Link& link, Received message) = 0;
  virtual Tensor allocate(DType dtype, const Shape& shape) = 0;  // may throw Error(out_of_memory)
  // The memory of this process that a peer on this machine can read in place; null: none.
  virtual SegmentPool* segments() { return nullptr; }
  // Called once, also after close(). `refusal`: the one received from the other side, or the one
  // sent to it.
  virtual void closed(Link& link, const std::string& reason, Refusal refusal) = 0;
};

class Link : public std::enable_shared_from_this<Link> {
 public:
  using Role = Handshake::Role;
  enum class State : uint8_t { greeting, provisional, up, closed };

  // `hello`: this process's greeting. `post` runs a function on the net thread soon. `secret`: of
  // the cluster; null without one.
  Link(Role role, ConnectionPtr connection, Greeting hello, LinkHost& host,
       std::function<void(std::function<void()>)> post, TimePoint now,
       std::shared_ptr<const Secret> secret = {});
  ~Link();
  void start();
  void tick(TimePoint now);

  // Any thread. Returns ok; peer_lost if the link is not up; out_of_memory if the queue is full
  // (then nothing was queued). `more`: flush() follows soon, and a small message may wait for it.
  Errc send(uint64_t target, uint64_t sender, const Encoded& message, bool more = false);
  void flush() { sender_.flush(); }
  // For a message that the other side waits for and whose loss it cannot detect: if the queue has
  // no room, the link ends.
  void send_or_end(uint64_t target, uint64_t sender, const Encoded& message);
  Errc send_control(Control type, std::span<const std::byte> payload);
  void send_caf(std::vector<char> bytes);  // above kCafQueueMax the link ends
  // CAF has read that many: the peer may send more.
  void eaten(size_t caf_bytes) { sender_.caf_read(caf_bytes); }
  // Ends the link soon; the host's closed() follows on the net thread.
  void close(const std::string& reason);
  void reject(const std::string& fault);         // close(), for a fault in the peer's data
  void fail_protocol(const std::string& fault);  // reject() at once, on the net thread
  // Ends the link at once, on the net thread. Queued data is lost; bytes that the socket has
  // accepted are still delivered.
  void close_now(const std::string& reason, Refusal refusal = Refusal::none);

  Role role() const { return handshake_.role(); }
  State state() const { return state_; }
  // True if the link ended because the peer violated the protocol.
  bool rejected() const { return rejected_; }
  // True if the other side sent a refusal, is no node of this version, or cannot be trusted by its
  // certificate. False if this side refused its greeting.
  bool turned_away() const { return handshake_.turned_away() || connection_->distrusted(); }
  const Hello& peer() const { return handshake_.peer(); }  // set from judge() on
  std::string label() const;  // "/job:ps/task:1", or the address before the greeting
  std::string peer_address() const { return connection_->peer_address(); }  // of the other end
  bool is_local() const { return connection_->is_local(); }
  TimePoint began() const { return liveness_.began(); }  // of the connection
  TimePoint last_heard() const { return liveness_.last_heard(); }
  LinkStats stats() const;
  int64_t arriving_bytes() const { return reassembly_.held_bytes(); }  // memory; net thread

 private:
  ConnectionHandlers::Room room();
  void received(size_t count);
  bool read_greeting();
  void end_greeting(const Greeting& answer);
  void go_up();
  bool read_frame();
  void handle_frame(const HeaderBytes& header, std::span<const std::byte> payload);
  void handle_control(uint16_t type, std::span<const std::byte> payload);
  void handle_small(const HeaderBytes& header, std::span<const std::byte> payload);
  void handle_loan(const HeaderBytes& header, std::span<const std::byte> payload);
  void begin_bulk(const HeaderBytes& header, std::span<const std::byte> payload);
  std::optional<TensorClaim> claim_of(const HeaderBytes& header, std::span<const std::byte> bytes);
  void take_bulk(std::span<const std::byte> elements);
  void hand_on(Received message);

  const ConnectionPtr connection_;
  LinkHost& host_;
  const std::function<void(std::function<void()>)> post_;
  BorrowedTensors borrowed_;  // net thread
  FrameSender sender_;
  std::atomic<State> state_{State::greeting};
  std::atomic<bool> rejected_{false};
  std::array<std::atomic<int64_t>, kChannels> bytes_in_{};
  std::atomic<int64_t> messages_in_{0};

  // Net thread.
  Handshake handshake_;
  Liveness liveness_;
  ReceiveBuffer buffer_;
  Reassembly reassembly_;
};

}  // namespace troupe

// Link: one connection to one peer: greeting, frames on four channels, credit, heartbeats. It has
// no thread and no clock: bytes come from the connection's handlers, time from tick().
//
// Frames have a header of 32 bytes. Channels, by urgency: control (confirm, heartbeat, credit,
// members), small (messages with at most kInlineMax bytes of elements), caf (BASP), bulk (elements
// of large tensors, in chunks of kChunk, one tensor after the other). Whatever is more urgent goes
// between two chunks. Everything but the chunks has a crc32c; chunks have one over the whole tensor
// where the message wants it. A damaged frame ends the link: its messages are lost, never changed.
//
// Threads: start(), tick() and all that a LinkHost hears belong to the net thread. The send
// functions and close() may be called from any; a sender writes itself when nobody else does, up to
// one chunk. Owner: the mesh. When it ends, what was queued or under way is lost and the host is
// told once.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "net/wire/codec.hpp"
#include "net/link/hello.hpp"

namespace troupe {

inline constexpr std::chrono::seconds kHandshakeDeadline{5};      // from connected to confirmed
inline constexpr std::chrono::milliseconds kHeartbeatEvery{200};  // of silence in our direction
// A peer silent for this long is gone. A simple bound: the net thread does nothing that blocks, so
// seven heartbeats in a row are lost by a frozen process or a dead wire, hardly by load. With
// kTick: a freeze is known after at most 1.6 s.
inline constexpr std::chrono::milliseconds kSilenceMax{1500};
inline constexpr std::chrono::milliseconds kTick{100};  // how often tick() is to be called
inline constexpr size_t kChunk = 256 << 10;     // bulk bytes between which other frames may go
inline constexpr size_t kInlineMax = 16 << 10;  // elements that travel inside a small frame
inline constexpr size_t kFrameHeader = 32;
inline constexpr size_t kFrameMax =
    96 << 10;  // payload of any frame but a chunk; holds a header and inline elements
inline constexpr size_t kScratch =
    128 << 10;  // read buffer of an established link; more than one such frame
inline constexpr int64_t kBulkWindow =
    16 << 20;  // bulk bytes under way before the receiver grants more
inline constexpr int64_t kCafWindow = 4 << 20;   // BASP bytes under way that CAF has not taken yet
inline constexpr int64_t kCreditStep = 1 << 20;  // grants are sent in steps of this
inline constexpr int64_t kBulkQueueMax =
    int64_t{1} << 30;  // tensor bytes waiting for one peer; one tensor always fits
inline constexpr int64_t kSmallQueueMax =
    64 << 20;  // bytes of small and control frames waiting for one peer
inline constexpr int64_t kCafQueueMax =
    128 << 20;  // BASP bytes waiting; past it the link ends: CAF cannot be told to wait

enum class Channel : uint8_t { control = 0, small, caf, bulk };
enum class Control : uint16_t { confirm = 0, heartbeat, credit, members, leaving };
inline constexpr int kChannels = 4;

struct LinkStats {
  int64_t bytes_in[kChannels] = {}, bytes_out[kChannels] = {};  // with frame headers
  int64_t messages_in = 0, messages_out = 0;                    // of the data plane
  int64_t queued_bytes = 0;
};

class Link;

// What a link does not decide itself. Net thread; the link's own functions may be called from here.
class LinkHost {
 public:
  virtual ~LinkHost() = default;
  // The other side has introduced itself. `none` in the answer goes on; else the acceptor sends it
  // as a refusal, and the dialler closes without a word. The acceptor may answer a question
  // (ask_task) by any kind.
  virtual Greeting judge(Link& link, const Greeting& theirs) = 0;
  virtual void established(Link& link) = 0;
  virtual void control(Link& link, Control type, std::span<const std::byte> payload) = 0;
  virtual void caf_bytes(
      Link& link, std::span<const std::byte> bytes) = 0;  // say eaten() for them, sooner or later
  virtual void message(Link& link, uint64_t target, uint64_t sender, PlaneMessage message) = 0;
  virtual Tensor allocate(DType dtype, const Shape& shape) = 0;  // may throw Error(out_of_memory)
  // Once; also for close(). `refusal`: what the other side said, or what we had to say to it.
  virtual void closed(Link& link, const std::string& reason, Refusal refusal) = 0;
};

class Link : public std::enable_shared_from_this<Link> {
 public:
  enum class Role : uint8_t { dialler, acceptor };
  enum class State : uint8_t { greeting, provisional, up, closed };

  // `hello`: our greeting. `post` runs a function on the net thread, soon.
  Link(Role role, ConnectionPtr connection, Greeting hello, LinkHost& host,
       std::function<void(std::function<void()>)> post, TimePoint now);
  ~Link();
  void start();
  void tick(TimePoint now);

  // Any thread. ok; peer_lost when the link is not up; out_of_memory when the queue is full
  // (nothing was queued then). `more`: flush() follows soon; until then a small message may wait.
  Errc send(uint64_t target, uint64_t sender, const PlaneMessage& message, bool more = false);
  void flush();
  // For what somebody at the other side waits for, without a way to learn that it was lost: if
  // there is no room for it, the link ends.
  void send_or_end(uint64_t target, uint64_t sender, const PlaneMessage& message);
  Errc send_control(Control type, std::span<const std::byte> payload);
  void send_caf(std::vector<char> bytes);  // past kCafQueueMax the link ends
  void eaten(size_t caf_bytes);            // CAF has taken that many: the peer may send more
  // Ends it soon; the host hears of it on the net thread.
  void close(const std::string& reason);
  void reject(const std::string& fault);         // the same, for what the peer has sent
  void fail_protocol(const std::string& fault);  // the same at once, on the net thread
  // The same at once, on the net thread. What is queued is lost; what the socket has taken arrives.
  void close_now(const std::string& reason, Refusal refusal = Refusal::none);

  Role role() const { return role_; }
  State state() const { return state_; }
  // It ended because of what the peer sent, which is not of the protocol.
  bool rejected() const { return rejected_; }
  // The other side has refused us in words, or is no node of our version at all. False for what we
  // have judged ourselves.
  bool turned_away() const { return turned_away_; }
  const Hello& peer() const { return peer_; }  // from judge() on
  std::string label() const;                   // "/job:ps/task:1", or the address of a stranger
  std::string peer_address() const { return connection_->peer_address(); }  // of the other end
  TimePoint last_heard() const { return heard_; }
  LinkStats stats() const;

 private:
  // A run of bytes to be written: owned ones, or elements of a tensor.
  struct Segment {
    std::vector<std::byte> owned;
    Tensor tensor;
    std::span<const std::byte> view;
  };
  struct Transfer {  // a bulk message, on its way out
    Segment begin;
    Tensor tensor;
    size_t offset = 0;
    uint32_t id = 0;
  };
  struct Frame {
    Channel channel;
    uint16_t type;
    uint64_t target, sender;
  };
  struct Incoming {  // a message being received
    bool active = false, discard = false;
    uint64_t target = 0, sender = 0;
    uint32_t id = 0;
    Decoded decoded;
    Tensor tensor;
    std::string failure;
    Errc failure_code = Errc::ok;
    size_t offset = 0;      // elements' bytes that have arrived
    size_t chunk_left = 0;  // of the chunk under way
    uint32_t crc = 0;
  };

  static Segment make_frame(Channel channel, uint16_t type, uint64_t target, uint64_t sender,
                            std::span<const std::byte> payload,
                            std::span<const std::byte> more = {});
  void pump(std::unique_lock<std::mutex>& lock, bool on_net_thread);
  bool fill();
  void queue_control(Segment frame);
  void push_written(Segment segment, Channel channel);
  size_t write_some();
  void drained();

  ConnectionHandlers::Room room();
  void received(size_t count);
  bool parse_greeting();
  void answer_greeting(const Greeting& theirs);
  void refuse(Refusal refusal, const std::string& text, const Greeting* answer = nullptr);
  bool parse_frame();
  void handle_frame(const Frame& frame, std::span<const std::byte> payload);
  void handle_control(const Frame& frame, std::span<const std::byte> payload);
  bool begin_message(const Frame& frame, std::span<const std::byte> header,
                     std::optional<size_t> element_bytes = {});
  void took_bulk(size_t bytes);
  void finish_message();
  void count_in(Channel channel, size_t bytes);
  void grant(int64_t& taken, size_t index);
  void go_up();

  const Role role_;
  const ConnectionPtr connection_;
  const Greeting hello_;
  LinkHost& host_;
  const std::function<void(std::function<void()>)> post_;

  // Net thread.
  std::atomic<State> state_{State::greeting};
  std::atomic<bool> rejected_{false};
  bool turned_away_ = false;
  Hello peer_;
  TimePoint started_, heard_, ticked_;
  std::vector<std::byte> scratch_;
  size_t begin_ = 0, end_ = 0;  // of what is unread in scratch_
  bool in_received_ = false;
  Incoming incoming_,
      interrupted_;  // the second: a large one between whose chunks a small one came
  uint32_t receive_id_ = 0;
  size_t in_tensor_ = 0;  // bytes of the last room() that went straight into the tensor's memory

  mutable std::mutex mutex_;  // guards the rest
  std::deque<Segment> control_, small_;
  std::deque<Segment> caf_;
  std::deque<Transfer> bulk_;
  std::deque<Segment>
      written_;                // being written, in order; the pumping thread's alone while pumping_
  size_t written_offset_ = 0;  // of the first one
  bool pumping_ = false, blocked_ = false, drained_ = false, handed_over_ = false, sealed_ = false;
  int64_t small_queued_ = 0, caf_queued_ = 0, bulk_queued_ = 0;
  int64_t bulk_credit_ = kBulkWindow, caf_credit_ = kCafWindow;
  int64_t bulk_taken_ = 0, caf_taken_ = 0;  // not yet granted again
  int64_t caf_arrived_ = 0;                 // not yet granted again, taken or not
  uint32_t next_transfer_ = 0;
  LinkStats stats_;
  TimePoint sent_;  // when tick() last saw that something had been sent
  int64_t sent_frames_ = 0, seen_frames_ = 0;
};

}  // namespace troupe

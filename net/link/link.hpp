// Link: one connection to one peer: greeting, frames on four channels, credit and heartbeats. It
// has no thread and no clock: the connection's handlers bring bytes, tick() brings time.
//
// A frame has a header of 32 bytes. The channels, most urgent first: control (confirm, heartbeat,
// credit, members), small (messages with at most kInlineMax bytes of elements), caf (BASP), bulk
// (elements of large tensors, in chunks of kChunk, one tensor after the other). Frames of the more
// urgent channels go between two chunks. Every frame except a chunk has a crc32c of its payload;
// chunks have one crc32c over the whole tensor if the message wants it. A damaged frame ends the
// link: its messages are lost, never changed.
//
// When a link ends, its queued and partly sent messages are lost and the host is told once. A
// sending thread writes to the socket itself if no other thread is writing, up to one chunk.
//
// Owner: its host (Mesh::Core or TaskDraw). Thread: start(), tick() and every call of LinkHost on
// the net thread; the send functions and close() on any.
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
// A peer silent for this long is taken as dead. The net thread never blocks, so seven missed
// heartbeats in a row mean a frozen process or a dead wire, hardly load. With kTick, a freeze is
// detected after at most 1.6 s.
inline constexpr std::chrono::milliseconds kSilenceMax{1500};
inline constexpr std::chrono::milliseconds kTick{100};  // the period at which the host calls tick()
inline constexpr size_t kChunk = 256 << 10;             // bulk bytes before other frames may go
inline constexpr size_t kInlineMax = 16 << 10;          // elements that travel inside a small frame
inline constexpr size_t kFrameHeader = 32;
inline constexpr size_t kFrameMax =
    96 << 10;  // payload of any frame but a chunk; holds a message header and inline elements
inline constexpr size_t kScratch =
    128 << 10;  // read buffer of an established link; holds more than one such frame
inline constexpr int64_t kBulkWindow =
    16 << 20;  // bulk bytes in flight before the receiver grants more
inline constexpr int64_t kCafWindow = 4 << 20;   // BASP bytes in flight that CAF has not read yet
inline constexpr int64_t kCreditStep = 1 << 20;  // the receiver grants credit in steps of this size
inline constexpr int64_t kBulkQueueMax =
    int64_t{1} << 30;  // tensor bytes queued for one peer; a single tensor always fits
inline constexpr int64_t kSmallQueueMax =
    64 << 20;  // bytes of small and control frames queued for one peer
inline constexpr int64_t kCafQueueMax =
    128 << 20;  // BASP bytes queued; above it the link ends, as CAF has no backpressure

enum class Channel : uint8_t { control = 0, small, caf, bulk };
enum class Control : uint16_t { confirm = 0, heartbeat, credit, members, leaving };
inline constexpr int kChannels = 4;

struct LinkStats {
  int64_t bytes_in[kChannels] = {}, bytes_out[kChannels] = {};  // including frame headers
  int64_t messages_in = 0, messages_out = 0;                    // data plane only
  int64_t queued_bytes = 0;
};

class Link;

// A message as it arrived. Its header is valid during the call only.
struct Received {
  uint64_t target = 0, sender = 0;
  uint16_t kind = 0;
  std::span<const std::byte> header;
  Tensor payload;
  // Not ok: there was no memory for the tensor, for this reason.
  Errc code = Errc::ok;
  std::string text;
};

// The decisions that a link leaves to its owner. Called on the net thread; may call the link's
// functions.
class LinkHost {
 public:
  virtual ~LinkHost() = default;
  // The other side has greeted. The link continues if the answer is a hello with Refusal::none.
  // Otherwise the acceptor sends the answer as a refusal, and the dialler closes without one. The
  // acceptor may answer a question (ask_task) with any kind of greeting.
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
  // Called once, also after close(). `refusal`: the one received from the other side, or the one
  // sent to it.
  virtual void closed(Link& link, const std::string& reason, Refusal refusal) = 0;
};

class Link : public std::enable_shared_from_this<Link> {
 public:
  enum class Role : uint8_t { dialler, acceptor };
  enum class State : uint8_t { greeting, provisional, up, closed };

  // `hello`: this process's greeting. `post` runs a function on the net thread soon.
  Link(Role role, ConnectionPtr connection, Greeting hello, LinkHost& host,
       std::function<void(std::function<void()>)> post, TimePoint now);
  ~Link();
  void start();
  void tick(TimePoint now);

  // Any thread. Returns ok; peer_lost if the link is not up; out_of_memory if the queue is full
  // (then nothing was queued). `more`: flush() follows soon, and a small message may wait for it.
  Errc send(uint64_t target, uint64_t sender, const Encoded& encoded, bool more = false);
  void flush();
  // For a message that the other side waits for and whose loss it cannot detect: if the queue has
  // no room, the link ends.
  void send_or_end(uint64_t target, uint64_t sender, const Encoded& message);
  Errc send_control(Control type, std::span<const std::byte> payload);
  void send_caf(std::vector<char> bytes);  // above kCafQueueMax the link ends
  void eaten(size_t caf_bytes);            // CAF has read that many: the peer may send more
  // Ends the link soon; the host's closed() follows on the net thread.
  void close(const std::string& reason);
  void reject(const std::string& fault);         // close(), for a fault in the peer's data
  void fail_protocol(const std::string& fault);  // reject() at once, on the net thread
  // Ends the link at once, on the net thread. Queued data is lost; bytes that the socket has
  // accepted are still delivered.
  void close_now(const std::string& reason, Refusal refusal = Refusal::none);

  Role role() const { return role_; }
  State state() const { return state_; }
  // True if the link ended because the peer violated the protocol.
  bool rejected() const { return rejected_; }
  // True if the other side sent a refusal or is no node of this version. False if this side
  // refused.
  bool turned_away() const { return turned_away_; }
  const Hello& peer() const { return peer_; }  // set from judge() on
  std::string label() const;  // "/job:ps/task:1", or the address before the greeting
  std::string peer_address() const { return connection_->peer_address(); }  // of the other end
  TimePoint last_heard() const { return heard_; }
  LinkStats stats() const;

 private:
  // A run of bytes to write: owned bytes, or elements of a tensor.
  struct Segment {
    std::vector<std::byte> owned;
    Tensor tensor;
    std::span<const std::byte> view;
  };
  struct Transfer {  // an outgoing bulk message
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
  struct Incoming {  // an incoming bulk message
    bool active = false;
    uint32_t id = 0;
    Received message;               // code other than ok: its elements are discarded
    std::vector<std::byte> header;  // of the message
    TensorClaim claim;
    size_t offset = 0;      // bytes of elements received so far
    size_t chunk_left = 0;  // bytes left of the current chunk
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
  void begin_bulk(const Frame& frame, std::span<const std::byte> header);
  void take_bulk(std::span<const std::byte> elements);
  void finish_message(Received message);
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
  size_t begin_ = 0, end_ = 0;  // the unread bytes of scratch_
  bool in_received_ = false;
  Incoming incoming_;
  uint32_t receive_id_ = 0;
  size_t in_tensor_ = 0;  // bytes of the last room() that lie in the tensor's own memory

  mutable std::mutex mutex_;  // guards the rest
  std::deque<Segment> control_, small_;
  std::deque<Segment> caf_;
  std::deque<Transfer> bulk_;
  std::deque<Segment>
      written_;  // in order of writing; only the pumping thread touches it while pumping_
  size_t written_offset_ = 0;  // of written_.front()
  bool pumping_ = false, blocked_ = false, drained_ = false, handed_over_ = false, sealed_ = false;
  int64_t small_queued_ = 0, caf_queued_ = 0, bulk_queued_ = 0;
  int64_t bulk_credit_ = kBulkWindow, caf_credit_ = kCafWindow;
  int64_t bulk_taken_ = 0, caf_taken_ = 0;  // received by us or read by CAF, not granted again yet
  int64_t caf_arrived_ = 0;  // received, read by CAF or not, and not granted again yet
  uint32_t next_transfer_ = 0;
  LinkStats stats_;
  TimePoint sent_;  // when tick() last saw that a frame had been sent
  int64_t sent_frames_ = 0, seen_frames_ = 0;
};

}  // namespace troupe

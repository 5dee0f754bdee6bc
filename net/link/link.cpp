// The send half of Link, with its timing and its end. net/link/link_receive.cpp is the receive
// half.
#include "net/link/link.hpp"

#include <algorithm>
#include <cstring>

#include "net/wire/crc32c.hpp"
#include "net/link/frame.hpp"

namespace troupe {
namespace {

constexpr size_t kStrangerScratch = 1024;  // read buffer during the greeting
constexpr size_t kCafFrame = 64 << 10;     // BASP bytes in one frame
constexpr size_t kSmallBatch = 64;         // small frames before the next bulk chunk
constexpr size_t kPartsMax = 256;          // spans of one gathered write
constexpr int64_t kGatherMax = 64 << 10;   // bytes of small messages that may wait for a flush
constexpr size_t kTurnBytes = 1 << 20;     // written at one time by the net thread
constexpr auto kLateTick = 3 * kTick;      // a tick this late means that this process was stopped

}  // namespace

Link::Link(Role role, ConnectionPtr connection, Greeting hello, LinkHost& host,
           std::function<void(std::function<void()>)> post, TimePoint now)
    : role_(role),
      connection_(std::move(connection)),
      hello_(std::move(hello)),
      host_(host),
      post_(std::move(post)),
      started_(now),
      heard_(now),
      ticked_(now),
      scratch_(kStrangerScratch),
      sent_(now) {}

Link::~Link() { connection_->close(); }

void Link::start() {
  ConnectionHandlers handlers;
  const std::weak_ptr<Link> weak = weak_from_this();
  handlers.room = [weak] {
    const auto self = weak.lock();
    return self ? self->room() : ConnectionHandlers::Room{};
  };
  handlers.on_bytes = [weak](size_t count) {
    if (const auto self = weak.lock()) self->received(count);
  };
  handlers.on_drained = [weak] {
    if (const auto self = weak.lock()) self->drained();
  };
  handlers.on_closed = [weak](const std::string& reason) {
    const auto self = weak.lock();
    if (!self) return;
    const bool mute = self->state_ == State::greeting && self->role_ == Role::dialler;
    self->close_now(mute ? "it hung up without a greeting (" + reason +
                               "); does a Troupe node listen there?"
                         : reason);
  };
  connection_->start(std::move(handlers));
  if (role_ == Role::dialler) {
    const auto packet = encode(hello_);
    std::unique_lock lock(mutex_);
    queue_control({{packet.begin(), packet.end()}, {}, {}});
    pump(lock, true);
  }
}

std::string Link::label() const {
  return peer_.job.empty() ? connection_->peer_address() : peer_.name();
}

// Time

void Link::tick(TimePoint now) {
  if (state_ == State::closed) return;
  // Bytes that arrived while this process was stopped are still unread, so the pause does not count
  // as the peer's silence.
  if (const auto late = now - ticked_; late > kLateTick) heard_ += late - kTick;
  ticked_ = now;
  if (std::exchange(in_received_, false)) heard_ = now;
  if (state_ != State::up) {
    if (now - started_ > kHandshakeDeadline)
      close_now(detail::concat("no greeting within ", kHandshakeDeadline.count(), " s"));
    return;
  }
  if (now - heard_ > kSilenceMax)
    return close_now(
        detail::concat("silent for ", kSilenceMax.count(), " ms: frozen, or the network is cut"));
  std::unique_lock lock(mutex_);
  if (sent_frames_ != std::exchange(seen_frames_, sent_frames_)) sent_ = now;
  if (now - sent_ >= kHeartbeatEvery - kTick && control_.empty() && !blocked_) {
    queue_control(
        make_frame(Channel::control, static_cast<uint16_t>(Control::heartbeat), 0, 0, {}));
    pump(lock, true);
  }
}

// Sending

Link::Segment Link::make_frame(Channel channel, uint16_t type, uint64_t target, uint64_t sender,
                               std::span<const std::byte> payload,
                               std::span<const std::byte> more) {
  HeaderBytes header{};
  header.channel = static_cast<uint8_t>(channel);
  header.type = type;
  header.length = static_cast<uint32_t>(payload.size() + more.size());
  header.target = target;
  header.sender = sender;
  header.payload_crc = crc32c(more, crc32c(payload));
  header.header_crc = crc_of_header(header);
  Segment out;
  out.owned.reserve(kFrameHeader + header.length);
  for (std::span<const std::byte> part : {as_bytes_of(header), payload, more})
    out.owned.insert(out.owned.end(), part.begin(), part.end());
  return out;
}

Errc Link::send(uint64_t target, uint64_t sender, const Encoded& encoded, bool more) {
  if (state_ != State::up) return Errc::peer_lost;
  const Tensor& payload = encoded.payload;
  const auto size = payload.defined() ? static_cast<size_t>(payload.byte_size()) : 0;
  const bool is_small = size <= kInlineMax;
  Segment frame;
  if (is_small) {
    std::vector<std::byte> head;
    head.reserve(4 + encoded.header.size());
    Writer writer(head);
    writer.number(static_cast<uint32_t>(encoded.header.size()));
    writer.bytes(encoded.header.data(), encoded.header.size());
    frame = make_frame(Channel::small, encoded.kind, target, sender, head,
                       size ? elements_of(payload) : std::span<const std::byte>());
  } else {
    frame = make_frame(Channel::bulk, encoded.kind, target, sender, encoded.header);
  }
  std::unique_lock lock(mutex_);
  if (sealed_) return Errc::peer_lost;
  if (is_small) {
    const auto bytes = static_cast<int64_t>(frame.owned.size());
    if (small_queued_ + bytes > kSmallQueueMax) return Errc::out_of_memory;
    small_queued_ += bytes;
    small_.push_back(std::move(frame));
  } else {
    const auto bytes = static_cast<int64_t>(size);
    if (bulk_queued_ > 0 && bulk_queued_ + bytes > kBulkQueueMax) return Errc::out_of_memory;
    bulk_queued_ += bytes;
    bulk_.push_back({std::move(frame), payload, 0, next_transfer_++});
  }
  ++stats_.messages_out;
  if (!more || !is_small || small_queued_ >= kGatherMax) pump(lock, false);
  return Errc::ok;
}

void Link::flush() {
  std::unique_lock lock(mutex_);
  pump(lock, false);
}

void Link::send_or_end(uint64_t target, uint64_t sender, const Encoded& message) {
  if (send(target, sender, message) == Errc::out_of_memory)
    close(detail::concat("more than ", kSmallQueueMax >> 20, " MiB of small messages wait for it"));
}

Errc Link::send_control(Control type, std::span<const std::byte> payload) {
  TROUPE_CHECK(payload.size() <= kFrameMax, "a control frame of ", payload.size(),
               " bytes is past the limit of ", kFrameMax);
  std::unique_lock lock(mutex_);
  if (sealed_ || state_ != State::up) return Errc::peer_lost;
  Segment frame = make_frame(Channel::control, static_cast<uint16_t>(type), 0, 0, payload);
  const auto bytes = static_cast<int64_t>(frame.owned.size());
  if (small_queued_ + bytes > kSmallQueueMax) return Errc::out_of_memory;
  queue_control(std::move(frame));
  pump(lock, false);
  return Errc::ok;
}

void Link::send_caf(std::vector<char> bytes) {
  std::unique_lock lock(mutex_);
  if (sealed_ || state_ != State::up) return;
  if (caf_queued_ + static_cast<int64_t>(bytes.size()) > kCafQueueMax) {
    sealed_ = true;
    lock.unlock();
    close(detail::concat("more than ", kCafQueueMax >> 20, " MiB of control messages wait for it"));
    return;
  }
  caf_queued_ += static_cast<int64_t>(bytes.size());
  const auto* p = reinterpret_cast<const std::byte*>(bytes.data());
  for (size_t at = 0; at < bytes.size(); at += kCafFrame)
    caf_.push_back(
        make_frame(Channel::caf, 0, 0, 0, {p + at, std::min(kCafFrame, bytes.size() - at)}));
  pump(lock, false);
}

void Link::queue_control(Segment frame) {
  small_queued_ += static_cast<int64_t>(frame.owned.size());
  control_.push_back(std::move(frame));
}

void Link::push_written(Segment segment, Channel channel) {
  if (!segment.owned.empty()) segment.view = segment.owned;
  stats_.bytes_out[static_cast<size_t>(channel)] += static_cast<int64_t>(segment.view.size());
  ++sent_frames_;
  written_.push_back(std::move(segment));
}

// Moves the next frames into written_. Returns true if a bulk chunk is among them.
bool Link::fill() {
  const auto take = [this](std::deque<Segment>& from, Channel channel, size_t count_max) {
    for (size_t i = 0; i < count_max && !from.empty(); ++i) {
      small_queued_ -= static_cast<int64_t>(from.front().owned.size());
      push_written(std::move(from.front()), channel);
      from.pop_front();
    }
  };
  take(control_, Channel::control, kSmallBatch);
  take(small_, Channel::small, kSmallBatch);
  while (!caf_.empty() && written_.size() < kPartsMax / 2) {
    const auto bytes = static_cast<int64_t>(caf_.front().owned.size() - kFrameHeader);
    if (bytes > caf_credit_) break;
    caf_credit_ -= bytes;
    caf_queued_ -= bytes;
    push_written(std::move(caf_.front()), Channel::caf);
    caf_.pop_front();
  }
  if (bulk_.empty()) return false;
  Transfer& transfer = bulk_.front();
  const std::span<const std::byte> all = elements_of(transfer.tensor);
  const size_t size = std::min(kChunk, all.size() - transfer.offset);
  if (bulk_credit_ < static_cast<int64_t>(size)) return false;
  if (transfer.offset == 0) push_written(std::move(transfer.begin), Channel::bulk);
  HeaderBytes header{};
  header.channel = static_cast<uint8_t>(Channel::bulk);
  header.flags = 1;  // a chunk
  header.length = static_cast<uint32_t>(size);
  header.target = transfer.id;
  header.header_crc = crc_of_header(header);
  const auto bytes = as_bytes_of(header);
  push_written({{bytes.begin(), bytes.end()}, {}, {}}, Channel::bulk);
  push_written({{}, transfer.tensor, all.subspan(transfer.offset, size)}, Channel::bulk);
  transfer.offset += size;
  bulk_credit_ -= static_cast<int64_t>(size);
  bulk_queued_ -= static_cast<int64_t>(size);
  if (transfer.offset == all.size()) bulk_.pop_front();
  return true;
}

// Runs without the mutex: only the pumping thread touches written_.
size_t Link::write_some() {
  std::array<std::span<const std::byte>, kPartsMax> parts;
  size_t count = 0;
  for (const Segment& segment : written_) {
    if (count == parts.size()) break;
    parts[count] = count == 0 ? segment.view.subspan(written_offset_) : segment.view;
    ++count;
  }
  return connection_->write(std::span(parts).first(count));
}

void Link::pump(std::unique_lock<std::mutex>& lock, bool on_net_thread) {
  if (pumping_ || blocked_) return;
  pumping_ = true;
  bool hand_over = false;
  for (size_t turn = 0;;) {
    const bool chunk = written_.empty() && fill();
    if (written_.empty()) break;
    size_t wanted = 0;
    size_t spans = 0;
    for (const Segment& segment : written_)
      if (spans++ < kPartsMax) wanted += segment.view.size();
    wanted -= written_offset_;
    drained_ = false;
    lock.unlock();
    const size_t done = write_some();
    lock.lock();
    turn += done;
    for (size_t left = done; left > 0;) {
      const size_t rest = written_.front().view.size() - written_offset_;
      if (left < rest) {
        written_offset_ += left;
        break;
      }
      left -= rest;
      written_offset_ = 0;
      written_.pop_front();
    }
    if (done < wanted && !drained_) {
      blocked_ = true;
      break;
    }
    // The net thread writes the remaining chunks, not the sender's thread.
    if ((!on_net_thread && chunk && !bulk_.empty()) || turn > kTurnBytes) {
      hand_over = !std::exchange(handed_over_, true);
      break;
    }
  }
  pumping_ = false;
  if (sealed_ && state_ == State::closed) written_.clear();
  if (!hand_over) return;
  lock.unlock();
  post_([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    std::unique_lock again(self->mutex_);
    self->handed_over_ = false;
    self->pump(again, true);
  });
}

void Link::drained() {
  std::unique_lock lock(mutex_);
  drained_ = true;
  blocked_ = false;
  pump(lock, true);
}

void Link::grant(int64_t& taken, size_t index) {
  if (taken < kCreditStep) return;
  int64_t amounts[2] = {0, 0};
  amounts[index] = std::exchange(taken, 0);
  caf_arrived_ -= amounts[1];
  queue_control(make_frame(Channel::control, static_cast<uint16_t>(Control::credit), 0, 0,
                           as_bytes_of(amounts)));
}

void Link::eaten(size_t caf_bytes) {
  std::unique_lock lock(mutex_);
  if (sealed_) return;
  caf_taken_ += static_cast<int64_t>(caf_bytes);
  grant(caf_taken_, 1);
  pump(lock, false);
}

// Ending

void Link::fail_protocol(const std::string& fault) {
  rejected_ = true;
  close_now(fault);
}

void Link::reject(const std::string& fault) {
  rejected_ = true;
  close(fault);
}

void Link::close(const std::string& reason) {
  {
    std::lock_guard lock(mutex_);
    sealed_ = true;
  }
  post_([weak = weak_from_this(), reason] {
    if (const auto self = weak.lock()) self->close_now(reason);
  });
}

void Link::close_now(const std::string& reason, Refusal refusal) {
  const auto self = shared_from_this();
  if (state_.exchange(State::closed) == State::closed) return;
  std::deque<Transfer> bulk;
  std::deque<Segment> written;
  {
    std::lock_guard lock(mutex_);
    sealed_ = true;
    control_.clear();
    small_.clear();
    caf_.clear();
    bulk.swap(bulk_);
    if (!pumping_) written.swap(written_);
    small_queued_ = caf_queued_ = bulk_queued_ = 0;
    written_offset_ = pumping_ ? written_offset_ : 0;
  }
  incoming_ = {};
  connection_->close();
  host_.closed(*this, reason, refusal);
}

LinkStats Link::stats() const {
  std::lock_guard lock(mutex_);
  LinkStats out = stats_;
  out.queued_bytes = small_queued_ + caf_queued_ + bulk_queued_;
  return out;
}

}  // namespace troupe

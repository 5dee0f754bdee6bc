// Implements net/link.hpp.
#include "net/link.hpp"

#include <algorithm>
#include <cstring>

#include "net/crc32c.hpp"

namespace troupe {
namespace {

constexpr size_t kStrangerScratch = 1024;  // read buffer before the greeting is over
constexpr size_t kReadAhead =
    4096;  // read beyond the end of a chunk into the scratch buffer: the next header
constexpr size_t kCafFrame = 64 << 10;  // BASP bytes in one frame
constexpr size_t kSmallBatch =
    64;  // small frames written at once, before a bulk chunk gets its turn
constexpr size_t kPartsMax = 256;  // spans of one gathered write
constexpr size_t kTurnBytes =
    1 << 20;  // written by the net thread before it looks at other things again
constexpr auto kLateTick = 3 * kTick;  // a tick this late: we have been stopped ourselves

struct HeaderBytes {
  uint8_t channel;
  uint8_t flags;
  uint16_t type;
  uint32_t length;
  uint64_t target;
  uint64_t sender;
  uint32_t payload_crc;
  uint32_t header_crc;  // of all before
};
static_assert(sizeof(HeaderBytes) == kFrameHeader);

template <class T>
std::span<const std::byte> as_bytes_of(const T& value) {
  return {reinterpret_cast<const std::byte*>(&value), sizeof value};
}

uint32_t crc_of_header(const HeaderBytes& header) {
  return crc32c(as_bytes_of(header).first(offsetof(HeaderBytes, header_crc)));
}

std::span<const std::byte> elements_of(const Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.raw()), static_cast<size_t>(tensor.byte_size())};
}

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
    control_.push_back({{packet.begin(), packet.end()}, {}, {}});
    pump(lock, true);
  }
}

std::string Link::label() const {
  return peer_.job.empty() ? connection_->peer_address() : peer_.name();
}

// Time

void Link::tick(TimePoint now) {
  if (state_ == State::closed) return;
  // What arrived while we were stopped is still to be read; silence is not the peer's fault then.
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
    control_.push_back(
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

Errc Link::send(uint64_t target, uint64_t sender, const DataMessage& message) {
  if (state_ != State::up) return Errc::peer_lost;
  const Encoded encoded = encode(message);
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
  if (const auto* deliver = std::get_if<Deliver>(&message)) {
    const auto key = std::tuple(deliver->key.session, deliver->key.executable, deliver->key.edge);
    if (edge_bytes_.size() < kEdgesMax || edge_bytes_.count(key))
      edge_bytes_[key] += static_cast<int64_t>(size);
  }
  pump(lock, false);
  return Errc::ok;
}

Errc Link::send_control(Control type, std::span<const std::byte> payload) {
  TROUPE_CHECK(payload.size() <= kFrameMax, "a control frame of ", payload.size(),
               " bytes is past the limit of ", kFrameMax);
  std::unique_lock lock(mutex_);
  if (sealed_ || state_ != State::up) return Errc::peer_lost;
  Segment frame = make_frame(Channel::control, static_cast<uint16_t>(type), 0, 0, payload);
  const auto bytes = static_cast<int64_t>(frame.owned.size());
  if (small_queued_ + bytes > kSmallQueueMax) return Errc::out_of_memory;
  small_queued_ += bytes;
  control_.push_back(std::move(frame));
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

void Link::push_written(Segment segment, Channel channel) {
  if (!segment.owned.empty()) segment.view = segment.owned;
  stats_.bytes_out[static_cast<size_t>(channel)] += static_cast<int64_t>(segment.view.size());
  ++sent_frames_;
  written_.push_back(std::move(segment));
}

// Moves what is to be written next into written_. Returns true if a bulk chunk is among it.
bool Link::fill() {
  const auto take = [this](std::deque<Segment>& from, Channel channel, size_t count_max) {
    for (size_t i = 0; i < count_max && !from.empty(); ++i) {
      // The greeting is not counted in small_queued_, hence the bound.
      small_queued_ =
          std::max<int64_t>(0, small_queued_ - static_cast<int64_t>(from.front().owned.size()));
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

// Without the mutex: only the pumping thread touches written_.
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
    // A sender's thread has better things to do than to copy a tensor into the socket.
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
  control_.push_back(make_frame(Channel::control, static_cast<uint16_t>(Control::credit), 0, 0,
                                as_bytes_of(amounts)));
}

void Link::eaten(size_t caf_bytes) {
  std::unique_lock lock(mutex_);
  if (sealed_) return;
  caf_taken_ += static_cast<int64_t>(caf_bytes);
  grant(caf_taken_, 1);
  pump(lock, false);
}

// Receiving

ConnectionHandlers::Room Link::room() {
  in_tensor_ = 0;
  if (begin_ == end_) begin_ = end_ = 0;
  if (begin_ == end_ && incoming_.active && !incoming_.discard && incoming_.chunk_left > 0) {
    in_tensor_ = incoming_.chunk_left;
    auto* elements = static_cast<std::byte*>(incoming_.tensor.mutable_raw());
    return {{elements + incoming_.offset, in_tensor_}, std::span(scratch_).first(kReadAhead)};
  }
  if (begin_ > 0 && scratch_.size() - end_ < scratch_.size() / 2) {
    std::memmove(scratch_.data(), scratch_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  return {std::span(scratch_).subspan(end_), {}};
}

void Link::received(size_t count) {
  const auto self = shared_from_this();  // a host may let go of us meanwhile
  in_received_ = true;
  if (in_tensor_ > 0) {
    const size_t into = std::min(count, std::exchange(in_tensor_, 0));
    auto* elements = static_cast<std::byte*>(incoming_.tensor.mutable_raw());
    if (incoming_.decoded.claim.checked)
      incoming_.crc = crc32c({elements + incoming_.offset, into}, incoming_.crc);
    incoming_.offset += into;
    incoming_.chunk_left -= into;
    count -= into;
    took_bulk(into);
  }
  end_ += count;
  while (state_ != State::closed && (peer_.job.empty() ? parse_greeting() : parse_frame())) {
  }
}

bool Link::parse_greeting() {
  const auto bytes = std::span<const std::byte>(scratch_).subspan(begin_, end_ - begin_);
  if (bytes.empty()) return false;
  switch (check_prefix(bytes)) {
    case Refusal::none:
      break;
    case Refusal::not_ours:
      refuse(Refusal::not_ours, "this port is a link of a Troupe cluster and speaks nothing else");
      return false;
    default:
      if (role_ == Role::dialler && bytes.size() < kGreetingPrefix)
        return false;  // the words are still to come
      const std::string words = refusal_text(bytes);
      refuse(Refusal::other_version,
             words.empty()
                 ? detail::concat("this node speaks protocol version ", kProtocolVersion,
                                  " and the other one another; install the same Troupe on both")
                 : words);
      return false;
  }
  if (bytes.size() < kGreetingBytes) return false;
  const auto theirs = decode_greeting(bytes.first(kGreetingBytes));
  if (!theirs) {
    refuse(Refusal::malformed, "the greeting was damaged on the way or is not a greeting");
    return false;
  }
  begin_ += kGreetingBytes;
  peer_ = theirs->hello;
  answer_greeting(*theirs);
  return true;
}

void Link::answer_greeting(const Greeting& theirs) {
  if (role_ == Role::dialler && theirs.kind == GreetingKind::refusal)
    return close_now(theirs.text, theirs.refusal);
  const bool fits = role_ == Role::dialler ? theirs.kind != GreetingKind::ask_task
                                           : theirs.kind == GreetingKind::hello ||
                                                 theirs.kind == GreetingKind::ask_task;
  if (!fits) return refuse(Refusal::malformed, "that greeting makes no sense here");
  const Greeting answer = host_.judge(*this, theirs);
  if (state_ == State::closed) return;
  if (answer.kind != GreetingKind::hello || answer.refusal != Refusal::none)
    return refuse(answer.refusal, answer.text, &answer);
  if (role_ == Role::dialler) {
    {
      std::unique_lock lock(mutex_);
      control_.push_back(
          make_frame(Channel::control, static_cast<uint16_t>(Control::confirm), 0, 0, {}));
      pump(lock, true);
    }
    go_up();
  } else {
    const auto packet = encode(answer);
    state_ = State::provisional;
    std::unique_lock lock(mutex_);
    control_.push_back({{packet.begin(), packet.end()}, {}, {}});
    pump(lock, true);
  }
}

// Ends the link before it is up. An acceptor says why.
void Link::refuse(Refusal refusal, const std::string& text, const Greeting* answer) {
  if (role_ == Role::acceptor) {
    Greeting out = answer ? *answer : hello_;
    if (!answer) {
      out.kind = GreetingKind::refusal;
      out.refusal = refusal;
      out.text = text;
    }
    const auto packet = encode(out);
    std::unique_lock lock(mutex_);
    control_.push_back({{packet.begin(), packet.end()}, {}, {}});
    pump(lock, true);
  }
  close_now(text, refusal);
}

void Link::go_up() {
  state_ = State::up;
  scratch_.resize(kScratch);
  host_.established(*this);
}

// Takes what is next off the scratch buffer. False: more bytes are needed.
bool Link::parse_frame() {
  const auto bytes = std::span<const std::byte>(scratch_).subspan(begin_, end_ - begin_);
  if (incoming_.chunk_left > 0) {
    if (bytes.empty()) return false;
    const size_t size = std::min(bytes.size(), incoming_.chunk_left);
    if (!incoming_.discard) {
      auto* elements = static_cast<std::byte*>(incoming_.tensor.mutable_raw());
      std::memcpy(elements + incoming_.offset, bytes.data(), size);
      if (incoming_.decoded.claim.checked) incoming_.crc = crc32c(bytes.first(size), incoming_.crc);
    }
    begin_ += size;
    incoming_.offset += size;
    incoming_.chunk_left -= size;
    took_bulk(size);
    return true;
  }
  if (bytes.size() < kFrameHeader) return false;
  HeaderBytes header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.header_crc != crc_of_header(header)) {
    fail_protocol("a frame header was damaged on the way");
    return false;
  }
  const bool chunk = header.channel == static_cast<uint8_t>(Channel::bulk) && header.flags == 1;
  if (header.channel >= kChannels || (header.flags != 0 && !chunk) ||
      header.length > (chunk ? kChunk : kFrameMax)) {
    fail_protocol(detail::concat("a frame of channel ", int{header.channel}, ", flags ",
                                 int{header.flags}, " and ", header.length,
                                 " bytes is past all limits"));
    return false;
  }
  if (state_ == State::provisional &&
      (header.channel != 0 || header.type != static_cast<uint16_t>(Control::confirm))) {
    fail_protocol("frames came before the greeting was confirmed");
    return false;
  }
  if (chunk) {
    const auto left = static_cast<size_t>(incoming_.decoded.claim.bytes) - incoming_.offset;
    if (!incoming_.active || header.target != incoming_.id || header.length == 0 ||
        header.length > left) {
      fail_protocol("a chunk belongs to no tensor");
      return false;
    }
    begin_ += kFrameHeader;
    incoming_.chunk_left = header.length;
    count_in(Channel::bulk, kFrameHeader + header.length);
    return true;
  }
  if (bytes.size() < kFrameHeader + header.length) return false;
  const auto payload = bytes.subspan(kFrameHeader, header.length);
  if (header.payload_crc != crc32c(payload)) {
    fail_protocol("a frame was damaged on the way");
    return false;
  }
  begin_ += kFrameHeader + header.length;
  const Frame frame{static_cast<Channel>(header.channel), header.type, header.target,
                    header.sender};
  count_in(frame.channel, kFrameHeader + header.length);
  handle_frame(frame, payload);
  return true;
}

void Link::count_in(Channel channel, size_t bytes) {
  std::lock_guard lock(mutex_);
  stats_.bytes_in[static_cast<size_t>(channel)] += static_cast<int64_t>(bytes);
}

void Link::handle_frame(const Frame& frame, std::span<const std::byte> payload) {
  switch (frame.channel) {
    case Channel::control:
      return handle_control(frame, payload);
    case Channel::caf:
      return host_.caf_bytes(*this, payload);
    case Channel::small: {
      Reader reader(payload);
      const auto size = reader.number<uint32_t>();
      const auto rest = reader.rest();
      if (!reader.good() || size > rest.size())
        return fail_protocol("a message is shorter than it says");
      if (!begin_message(frame, rest.first(size))) return;
      const auto elements = rest.subspan(size);
      if (static_cast<int64_t>(elements.size()) != incoming_.decoded.claim.bytes)
        return fail_protocol("a message has other elements than it says");
      if (!incoming_.discard && !elements.empty())
        std::memcpy(incoming_.tensor.mutable_raw(), elements.data(), elements.size());
      incoming_.decoded.claim.checked = false;  // the frame has its own crc
      return finish_message();
    }
    case Channel::bulk:
      if (!begin_message(frame, payload)) return;
      if (incoming_.decoded.claim.bytes == 0)
        return fail_protocol("a large message has no elements");
      incoming_.id = receive_id_++;
      return;
  }
}

void Link::handle_control(const Frame& frame, std::span<const std::byte> payload) {
  switch (static_cast<Control>(frame.type)) {
    case Control::confirm:
      if (state_ == State::provisional) go_up();
      return;
    case Control::heartbeat:
      return;
    case Control::credit: {
      Reader reader(payload);
      const auto bulk = reader.number<int64_t>(), caf = reader.number<int64_t>();
      std::unique_lock lock(mutex_);
      if (!reader.good() || bulk < 0 || caf < 0 || bulk > kBulkWindow - bulk_credit_ ||
          caf > kCafWindow - caf_credit_) {
        lock.unlock();
        return fail_protocol("it grants more credit than there is");
      }
      bulk_credit_ += bulk;
      caf_credit_ += caf;
      return pump(lock, true);
    }
    case Control::members:
    case Control::leaving:
      return host_.control(*this, static_cast<Control>(frame.type), payload);
  }
  fail_protocol(detail::concat("a control frame of type ", frame.type, " is not known"));
}

// Reads the header of a message and finds memory for its tensor. False: the link has failed.
bool Link::begin_message(const Frame& frame, std::span<const std::byte> header) {
  if (incoming_.active && frame.channel == Channel::bulk) {
    fail_protocol("a tensor begins before the one before it has ended");
    return false;
  }
  std::string why;
  auto decoded = decode(frame.type, header, why);
  if (!decoded) {
    fail_protocol(why);
    return false;
  }
  // A small message may come between the chunks of a large one.
  if (frame.channel == Channel::small && incoming_.active) interrupted_ = std::move(incoming_);
  incoming_ = {};
  incoming_.active = true;
  incoming_.target = frame.target;
  incoming_.sender = frame.sender;
  incoming_.decoded = std::move(*decoded);
  const TensorClaim& claim = incoming_.decoded.claim;
  if (!claim.defined) return true;
  try {
    incoming_.tensor = host_.allocate(claim.dtype, claim.shape);
  } catch (const Error& e) {  // the message fails, the link lives
    incoming_.discard = true;
    incoming_.failure = detail::concat("no memory for ", claim.dtype, claim.shape, " from ",
                                       label(), ": ", e.what());
    incoming_.failure_code = e.code();
  }
  return true;
}

void Link::took_bulk(size_t bytes) {
  {
    std::unique_lock lock(mutex_);
    bulk_taken_ += static_cast<int64_t>(bytes);
    grant(bulk_taken_, 0);
    pump(lock, true);
  }
  if (incoming_.chunk_left == 0 &&
      static_cast<int64_t>(incoming_.offset) == incoming_.decoded.claim.bytes)
    finish_message();
}

void Link::finish_message() {
  Incoming done = std::exchange(incoming_, std::exchange(interrupted_, {}));
  DataMessage& message = done.decoded.message;
  if (done.decoded.claim.checked && !done.discard && done.crc != done.decoded.claim.crc)
    return fail_protocol("the elements of a tensor were damaged on the way");
  {
    std::lock_guard lock(mutex_);
    ++stats_.messages_in;
  }
  if (done.discard) {
    if (auto failed = failed_form_of(message, done.failure_code, done.failure))
      host_.message(*this, done.target, done.sender, std::move(*failed));
    else if (auto refusal = refusal_of(message, done.failure_code, done.failure))
      send(done.sender, done.target, *refusal);
    return;
  }
  if (done.decoded.claim.defined) {
    sanitize(done.tensor);
    *tensor_of(message) = std::move(done.tensor);
  }
  host_.message(*this, done.target, done.sender, std::move(message));
}

// Ending

void Link::fail_protocol(const std::string& what) { close_now(what); }

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
  interrupted_ = {};
  connection_->close();
  host_.closed(*this, reason, refusal);
}

LinkStats Link::stats() const {
  std::lock_guard lock(mutex_);
  LinkStats out = stats_;
  out.queued_bytes = small_queued_ + caf_queued_ + bulk_queued_;
  return out;
}

std::map<std::tuple<uint64_t, uint32_t, int32_t>, int64_t> Link::edge_bytes() const {
  std::lock_guard lock(mutex_);
  return edge_bytes_;
}

}  // namespace troupe

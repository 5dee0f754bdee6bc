// Begins and ends a link, and cuts the bytes that arrive into greetings and frames.
#include "net/link/link.hpp"

#include <algorithm>
#include <cstring>

#include "graph/base/fail_point.hpp"
#include "graph/base/mutant.hpp"

namespace troupe {
namespace {

constexpr size_t kStrangerScratch = 1024;  // read buffer during the greeting

template <size_t N>
Piece packet(const std::array<std::byte, N>& bytes) {
  return {{bytes.begin(), bytes.end()}, {}, {}};
}

using BytesIn = std::array<std::atomic<int64_t>, kChannels>;

void count(BytesIn& bytes_in, Channel channel, size_t payload_bytes) {
  bytes_in[static_cast<size_t>(channel)].fetch_add(
      static_cast<int64_t>(kFrameHeader + payload_bytes), std::memory_order_relaxed);
}

std::vector<uint64_t> numbers_of(std::span<const std::byte> payload) {
  std::vector<uint64_t> out(payload.size() / sizeof(uint64_t));
  if (!out.empty()) std::memcpy(out.data(), payload.data(), out.size() * sizeof(uint64_t));
  return out;
}

// Without memory the message fails, and the link stays up.
void allocate(Received& message, const TensorClaim& claim, LinkHost& host, const Link& from) {
  try {
    message.payload = host.allocate(claim.dtype, claim.shape);
  } catch (const Error& e) {
    message.code = e.code();
    message.text = detail::concat("no memory for ", claim.dtype, claim.shape, " from ",
                                  from.label(), ": ", e.what());
  }
}

// The message of a header; with its memory, unless the claim is large.
Received message_of(const HeaderBytes& header, std::span<const std::byte> bytes,
                    const TensorClaim& claim, LinkHost& host, const Link& from) {
  Received out{header.target, header.sender, header.type, bytes, {}, Errc::ok, {}};
  if (claim.defined && claim.bytes <= kLargeClaim) allocate(out, claim, host, from);
  return out;
}

}  // namespace

Link::Link(Role role, ConnectionPtr connection, Greeting hello, LinkHost& host,
           std::function<void(std::function<void()>)> post, TimePoint now,
           std::shared_ptr<const Secret> secret)
    : connection_(std::move(connection)),
      host_(host),
      post_(std::move(post)),
      sender_(
          connection_,
          [this] {
            post_([weak = weak_from_this()] {
              if (const auto self = weak.lock()) self->sender_.resume();
            });
          },
          borrowed_.given_back()),
      handshake_(role, std::move(hello), std::move(secret), connection_->peer_address()),
      liveness_(now, std::chrono::milliseconds(handshake_.own().hello.silence)),
      buffer_(kStrangerScratch) {}

Link::~Link() { connection_->close(); }

void Link::start() {
  ConnectionHandlers handlers;
  const std::weak_ptr<Link> weak = weak_from_this();
  handlers.room = [weak] {
    const auto self = weak.lock();
    return self ? self->room() : ConnectionHandlers::Room{};
  };
  handlers.on_bytes = [weak](size_t count) {
    const auto self = weak.lock();
    if (!self) return;
    try {
      self->received(count);
    } catch (const std::exception& e) {  // a frame is half read: both sides begin anew
      self->close_now(detail::concat("an exception here, at its data: ", e.what()));
    }
  };
  handlers.on_descriptor = [weak](Descriptor descriptor) {
    const auto self = weak.lock();
    if (self && !self->borrowed_.arrived(std::move(descriptor)))
      self->fail_protocol("it passes descriptors that no message belongs to");
  };
  handlers.on_drained = [weak] {
    if (const auto self = weak.lock()) self->sender_.drained();
  };
  handlers.on_closed = [weak](const std::string& reason) {
    const auto self = weak.lock();
    if (!self) return;
    if (self->connection_->distrusted()) return self->close_now(reason, Refusal::untrusted);
    const bool mute = self->state_ == State::greeting && self->role() == Role::dialler &&
                      !self->handshake_.challenged();
    self->close_now(mute ? "it hung up without a greeting (" + reason +
                               "); does a Troupe node listen there?"
                         : reason);
  };
  connection_->start(std::move(handlers));
  if (role() == Role::dialler) sender_.send_first(packet(encode(handshake_.own())));
}

std::string Link::label() const {
  return handshake_.met() ? peer().name() : connection_->peer_address();
}

void Link::tick(TimePoint now) {
  if (state_ == State::closed) return;
  liveness_.tick(now);
  if (state_ != State::up) {
    if (liveness_.is_past_handshake())
      close_now(detail::concat("no greeting within ", kHandshakeDeadline.count(), " s"));
    return;
  }
  if (liveness_.is_silent() && !mutant(Mutant::silence_not_noticed))
    return close_now(detail::concat("silent for ", liveness_.silence().count(),
                                    " ms: frozen, or the network is cut"));
  sender_.send_ended();
  if (liveness_.heartbeat_is_due(sender_.bytes_out())) sender_.send_heartbeat();
}

// Sending

Errc Link::send(uint64_t target, uint64_t sender, const Encoded& message, bool more) {
  fail_point(FailPoint::link_send);
  return state_ == State::up ? sender_.send(target, sender, message, more) : Errc::peer_lost;
}

void Link::send_or_end(uint64_t target, uint64_t sender, const Encoded& message) {
  if (send(target, sender, message) == Errc::out_of_memory)
    close(detail::concat("more than ", kSmallQueueMax >> 20, " MiB of small messages wait for it"));
}

Errc Link::send_control(Control type, std::span<const std::byte> payload) {
  return state_ == State::up ? sender_.send_control(type, payload) : Errc::peer_lost;
}

void Link::send_caf(std::vector<char> bytes) {
  if (state_ == State::up &&
      sender_.send_caf(std::as_bytes(std::span(bytes))) == Errc::out_of_memory)
    close(detail::concat("more than ", kCafQueueMax >> 20, " MiB of control messages wait for it"));
}

// Receiving

ConnectionHandlers::Room Link::room() {
  constexpr size_t kReadAhead = 4096;  // read past the end of a chunk, for the next header
  const auto next = buffer_.room();
  if (const auto elements = reassembly_.room(); buffer_.unread().empty() && !elements.empty())
    return {elements, next.first(kReadAhead)};
  return {next, {}};
}

void Link::received(size_t count) {
  const auto self = shared_from_this();  // a host may release the link during this call
  if (state_ == State::closed) return;
  liveness_.bytes_came();
  if (const auto elements = reassembly_.room(); buffer_.unread().empty() && !elements.empty()) {
    const size_t into = std::min(count, elements.size());
    count -= into;
    take_bulk(elements.first(into));
  }
  buffer_.filled(count);
  while (state_ != State::closed && (handshake_.met() ? read_frame() : read_greeting())) {
  }
}

bool Link::read_greeting() {
  const Handshake::Step step = handshake_.read(buffer_.unread(), connection_->certified());
  if (step.act == Handshake::Act::wait) return false;
  if (step.act == Handshake::Act::end) {
    end_greeting(step.greeting);
    return false;
  }
  buffer_.skip(kGreetingBytes);
  if (step.act == Handshake::Act::send) {
    sender_.send_first(packet(step.packet));
    return true;
  }
  const Greeting answer = host_.judge(*this, step.greeting);
  if (state_ == State::closed) return true;
  if (answer.kind != GreetingKind::hello || answer.refusal != Refusal::none) {
    end_greeting(answer);
  } else if (role() == Role::dialler) {
    sender_.send_first(control_frame(Control::confirm));
    go_up();
  } else {
    state_ = State::provisional;
    sender_.send_first(packet(handshake_.seal(answer)));
  }
  return true;
}

// Ends the link before it is up. An acceptor sends the reason first.
void Link::end_greeting(const Greeting& answer) {
  if (role() == Role::acceptor) sender_.send_first(packet(handshake_.seal(answer)));
  close_now(answer.text, answer.refusal);
}

void Link::go_up() {
  fail_point(FailPoint::link_up);
  state_ = State::up;
  liveness_.peer_allows(std::chrono::milliseconds(peer().silence));
  buffer_.resize(kScratch);
  if (SegmentPool* const segments = is_local() ? host_.segments() : nullptr)
    sender_.lend_from(*segments);
  host_.established(*this);
}

// Takes the next frame or part of a chunk from the buffer. Returns false if more bytes are needed.
bool Link::read_frame() {
  const auto bytes = buffer_.unread();
  if (const size_t left = reassembly_.chunk_left(); left > 0) {
    if (bytes.empty()) return false;
    const auto elements = bytes.first(std::min(bytes.size(), left));
    buffer_.skip(elements.size());
    take_bulk(elements);
    return true;
  }
  if (bytes.size() < kFrameHeader) return false;
  HeaderBytes header;
  std::memcpy(&header, bytes.data(), sizeof header);
  const auto fail = [this](const std::string& fault) {
    fail_protocol(fault);
    return false;
  };
  if (header.header_crc != crc_of_header(header))
    return fail("a frame header was damaged on the way");
  const bool flagged = header.flags == kFlagged;
  const bool chunk = flagged && header.channel == static_cast<uint8_t>(Channel::bulk);
  const bool loan = flagged && header.channel == static_cast<uint8_t>(Channel::small);
  if (header.channel >= kChannels || (header.flags != 0 && !chunk && !loan) ||
      header.length > (chunk ? kChunk : kFrameMax))
    return fail(detail::concat("a frame of channel ", int{header.channel}, ", flags ",
                               int{header.flags}, " and ", header.length,
                               " bytes is past all limits"));
  if (state_ == State::provisional &&
      (header.channel != 0 || header.type != static_cast<uint16_t>(Control::confirm)))
    return fail("frames came before the greeting was confirmed");
  if (chunk) {
    if (!reassembly_.begin_chunk(header.target, header.length))
      return fail("a chunk belongs to no tensor");
    buffer_.skip(kFrameHeader);
    count(bytes_in_, Channel::bulk, header.length);
    return true;
  }
  if (bytes.size() < kFrameHeader + header.length) return false;
  const auto payload = bytes.subspan(kFrameHeader, header.length);
  if (header.payload_crc != crc32c(payload) && !mutant(Mutant::frame_not_checked))
    return fail("a frame was damaged on the way");
  if (drops_at(FailPoint::link_frame)) return fail("a fail point took a frame away");
  buffer_.skip(kFrameHeader + header.length);
  count(bytes_in_, static_cast<Channel>(header.channel), header.length);
  handle_frame(header, payload);
  return true;
}

void Link::handle_frame(const HeaderBytes& header, std::span<const std::byte> payload) {
  switch (static_cast<Channel>(header.channel)) {
    case Channel::control:
      return handle_control(header.type, payload);
    case Channel::small:
      return header.flags == kFlagged ? handle_loan(header, payload)
                                      : handle_small(header, payload);
    case Channel::caf:
      // Bulk bytes are granted again as they arrive, BASP bytes only when CAF has read them.
      if (!sender_.caf_arrived(payload.size()))
        return fail_protocol("it sends more control messages than it was granted");
      return host_.caf_bytes(*this, payload);
    case Channel::bulk:
      return begin_bulk(header, payload);
  }
}

void Link::handle_control(uint16_t type, std::span<const std::byte> payload) {
  switch (static_cast<Control>(type)) {
    case Control::confirm:
      if (state_ == State::provisional) go_up();
      return;
    case Control::heartbeat:
      return;
    case Control::credit: {
      Reader reader(payload);
      const auto bulk = reader.number<int64_t>(), caf = reader.number<int64_t>();
      if (!reader.good() || !sender_.grant(bulk, caf))
        fail_protocol("it grants more credit than there is");
      return;
    }
    case Control::returned:
      if (!sender_.take_back(numbers_of(payload)))
        fail_protocol("it returns a tensor that was not lent");
      return;
    case Control::forgotten:
      if (!borrowed_.forget(numbers_of(payload)))
        fail_protocol("it forgets a segment that it has not told");
      return;
    case Control::members:
    case Control::leaving:
      return host_.control(*this, static_cast<Control>(type), payload);
  }
  fail_protocol(detail::concat("a control frame of type ", type, " is not known"));
}

// Returns nothing if the link has failed.
std::optional<TensorClaim> Link::claim_of(const HeaderBytes& header,
                                          std::span<const std::byte> bytes) {
  std::string why;
  auto claim = host_.claim(header.type, bytes, why);
  if (!claim) fail_protocol(why);
  return claim;
}

// Such a message may arrive between the chunks of a large one. The frame's crc covers its elements.
void Link::handle_small(const HeaderBytes& header, std::span<const std::byte> payload) {
  Reader reader(payload);
  const auto size = reader.number<uint32_t>();
  const auto rest = reader.rest();
  if (!reader.good() || size > rest.size())
    return fail_protocol("a message is shorter than it says");
  const auto bytes = rest.first(size), elements = rest.subspan(size);
  const auto claim = claim_of(header, bytes);
  if (!claim) return;
  if (static_cast<int64_t>(elements.size()) != claim->bytes)
    return fail_protocol("a message has other elements than it says");
  Received message = message_of(header, bytes, *claim, host_, *this);
  if (message.payload.defined() && !elements.empty())
    std::memcpy(message.payload.mutable_raw(), elements.data(), elements.size());
  hand_on(std::move(message));
}

void Link::handle_loan(const HeaderBytes& header, std::span<const std::byte> payload) {
  if (payload.size() < sizeof(LoanPlace)) return fail_protocol("a loan is shorter than it says");
  LoanPlace place;
  std::memcpy(&place, payload.data(), sizeof place);
  const auto bytes = payload.subspan(sizeof place);
  const auto claim = claim_of(header, bytes);
  if (!claim) return;
  BorrowedTensors::Outcome outcome = borrowed_.borrow(place, *claim);
  if (outcome.code == Errc::bad_data) return fail_protocol(outcome.why);
  hand_on({header.target, header.sender, header.type, bytes, std::move(outcome.tensor),
           outcome.code, std::move(outcome.why)});
}

void Link::begin_bulk(const HeaderBytes& header, std::span<const std::byte> payload) {
  if (reassembly_.active())
    return fail_protocol("a tensor begins before the one before it has ended");
  const auto claim = claim_of(header, payload);
  if (!claim) return;
  if (claim->bytes == 0) return fail_protocol("a large message has no elements");
  reassembly_.begin(message_of(header, payload, *claim, host_, *this), *claim);
}

void Link::take_bulk(std::span<const std::byte> elements) {
  const bool last = reassembly_.take(elements);
  if (reassembly_.needs_memory()) {
    Received message;
    allocate(message, reassembly_.claim(), host_, *this);
    reassembly_.give(std::move(message.payload), message.code, std::move(message.text));
  }
  sender_.bulk_read(elements.size());
  if (!last) return;
  fail_point(FailPoint::link_bulk_last);
  if (auto message = reassembly_.finish())
    hand_on(std::move(*message));
  else
    fail_protocol("the elements of a tensor were damaged on the way");
}

void Link::hand_on(Received message) {
  messages_in_.fetch_add(1, std::memory_order_relaxed);
  if (message.payload.defined()) sanitize(message.payload);
  host_.message(*this, std::move(message));
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
  sender_.seal();
  post_([weak = weak_from_this(), reason] {
    if (const auto self = weak.lock()) self->close_now(reason);
  });
}

void Link::close_now(const std::string& reason, Refusal refusal) {
  const auto self = shared_from_this();
  if (state_ != State::closed) fail_point(FailPoint::link_close);
  if (state_.exchange(State::closed) == State::closed) return;
  sender_.close();
  reassembly_ = {};
  connection_->close();
  host_.closed(*this, reason, refusal);
}

LinkStats Link::stats() const {
  LinkStats out;
  sender_.add_to(out);
  for (size_t c = 0; c < bytes_in_.size(); ++c) out.bytes_in[c] = bytes_in_[c];
  out.messages_in = messages_in_;
  out.local = connection_->is_local();
  return out;
}

}  // namespace troupe

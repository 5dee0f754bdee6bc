// The receive half of Link: cuts the byte stream into greetings and frames and hands messages on.
#include <algorithm>
#include <cstring>

#include "net/wire/crc32c.hpp"
#include "net/link/frame.hpp"
#include "net/link/link.hpp"

namespace troupe {
namespace {

constexpr size_t kReadAhead =
    4096;  // read past the end of a chunk into scratch_, for the next header

constexpr size_t kVersionAt = 8;  // in a greeting of any version

// States both sides' protocol versions, in the same words on both sides, and the other side's own
// text if it differs.
std::string other_version(std::span<const std::byte> prefix, bool dialled) {
  uint16_t theirs;
  std::memcpy(&theirs, prefix.data() + kVersionAt, sizeof theirs);
  const uint16_t acceptors = dialled ? theirs : kProtocolVersion,
                 diallers = dialled ? kProtocolVersion : theirs;
  std::string text =
      detail::concat("the node that was dialled speaks protocol version ", acceptors,
                     ", the one that dialled ", diallers, "; install the same Troupe on both");
  const std::string words = refusal_text(prefix);
  if (!words.empty() && words != text) text += ". It said: " + words;
  return text;
}

// Returns nothing if the link has failed.
std::optional<TensorClaim> claim_of(Link& link, LinkHost& host, uint16_t kind,
                                    std::span<const std::byte> header) {
  std::string why;
  auto claim = host.claim(kind, header, why);
  if (!claim) link.fail_protocol(why);
  return claim;
}

// Allocates the tensor of a message.
void allocate(Received& out, const Link& link, LinkHost& host, const TensorClaim& claim) {
  if (!claim.defined) return;
  try {
    out.payload = host.allocate(claim.dtype, claim.shape);
  } catch (const Error& e) {  // the message fails, the link stays up
    out.code = e.code();
    out.text = detail::concat("no memory for ", claim.dtype, claim.shape, " from ", link.label(),
                              ": ", e.what());
  }
}

}  // namespace

ConnectionHandlers::Room Link::room() {
  in_tensor_ = 0;
  if (begin_ == end_) begin_ = end_ = 0;
  if (begin_ == end_ && incoming_.chunk_left > 0 && incoming_.message.code == Errc::ok) {
    in_tensor_ = incoming_.chunk_left;
    auto* elements = static_cast<std::byte*>(incoming_.message.payload.mutable_raw());
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
  const auto self = shared_from_this();  // a host may release the link during this call
  in_received_ = true;
  if (in_tensor_ > 0) {
    const size_t into = std::min(count, std::exchange(in_tensor_, 0));
    const auto* elements = static_cast<const std::byte*>(incoming_.message.payload.raw());
    count -= into;
    take_bulk({elements + incoming_.offset, into});
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
      turned_away_ = true;
      refuse(Refusal::not_ours,
             role_ == Role::dialler
                 ? "what listens there is no node of Troupe; look at the address"
                 : "this port is a link of a Troupe cluster and speaks nothing else");
      return false;
    default:
      if (role_ == Role::dialler && bytes.size() < kGreetingPrefix)
        return false;  // the text has not arrived yet
      turned_away_ = true;
      refuse(Refusal::other_version, other_version(bytes, role_ == Role::dialler));
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
  if (role_ == Role::dialler && theirs.kind == GreetingKind::refusal) {
    turned_away_ = true;
    return close_now(theirs.text, theirs.refusal);
  }
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
      queue_control(
          make_frame(Channel::control, static_cast<uint16_t>(Control::confirm), 0, 0, {}));
      pump(lock, true);
    }
    go_up();
  } else {
    const auto packet = encode(answer);
    state_ = State::provisional;
    std::unique_lock lock(mutex_);
    queue_control({{packet.begin(), packet.end()}, {}, {}});
    pump(lock, true);
  }
}

// Ends the link before it is up. An acceptor sends the reason first.
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
    queue_control({{packet.begin(), packet.end()}, {}, {}});
    pump(lock, true);
  }
  close_now(text, refusal);
}

void Link::go_up() {
  state_ = State::up;
  scratch_.resize(kScratch);
  host_.established(*this);
}

// Takes the next frame or part of a chunk from the scratch buffer. Returns false if more bytes are
// needed.
bool Link::parse_frame() {
  const auto bytes = std::span<const std::byte>(scratch_).subspan(begin_, end_ - begin_);
  if (incoming_.chunk_left > 0) {
    if (bytes.empty()) return false;
    const size_t size = std::min(bytes.size(), incoming_.chunk_left);
    if (incoming_.message.code == Errc::ok) {
      auto* elements = static_cast<std::byte*>(incoming_.message.payload.mutable_raw());
      std::memcpy(elements + incoming_.offset, bytes.data(), size);
    }
    begin_ += size;
    take_bulk(bytes.first(size));
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
    const auto left = static_cast<size_t>(incoming_.claim.bytes) - incoming_.offset;
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
    case Channel::caf: {
      // Bulk bytes are granted again as they arrive, BASP bytes only when CAF has read them.
      std::unique_lock lock(mutex_);
      caf_arrived_ += static_cast<int64_t>(payload.size());
      const bool granted = caf_arrived_ <= kCafWindow;
      lock.unlock();
      if (!granted) return fail_protocol("it sends more control messages than it was granted");
      return host_.caf_bytes(*this, payload);
    }
    case Channel::small: {
      // Such a message may arrive between the chunks of a large one. The frame's crc covers its
      // elements.
      Reader reader(payload);
      const auto size = reader.number<uint32_t>();
      const auto rest = reader.rest();
      if (!reader.good() || size > rest.size())
        return fail_protocol("a message is shorter than it says");
      const auto header = rest.first(size), elements = rest.subspan(size);
      const auto claim = claim_of(*this, host_, frame.type, header);
      if (!claim) return;
      if (static_cast<int64_t>(elements.size()) != claim->bytes)
        return fail_protocol("a message has other elements than it says");
      Received message{frame.target, frame.sender, frame.type, header, {}, Errc::ok, {}};
      allocate(message, *this, host_, *claim);
      if (message.payload.defined() && !elements.empty())
        std::memcpy(message.payload.mutable_raw(), elements.data(), elements.size());
      return finish_message(std::move(message));
    }
    case Channel::bulk:
      return begin_bulk(frame, payload);
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

void Link::begin_bulk(const Frame& frame, std::span<const std::byte> header) {
  if (incoming_.active) return fail_protocol("a tensor begins before the one before it has ended");
  const auto claim = claim_of(*this, host_, frame.type, header);
  if (!claim) return;
  if (claim->bytes == 0) return fail_protocol("a large message has no elements");
  incoming_.active = true;
  incoming_.id = receive_id_++;
  incoming_.header.assign(header.begin(), header.end());
  incoming_.message = {frame.target, frame.sender, frame.type, incoming_.header, {}, Errc::ok, {}};
  allocate(incoming_.message, *this, host_, *claim);
  incoming_.claim = *claim;
  incoming_.offset = 0;
  incoming_.crc = 0;
}

// Counts elements that are in the tensor now, or discarded.
void Link::take_bulk(std::span<const std::byte> elements) {
  if (incoming_.claim.checked && incoming_.message.code == Errc::ok)
    incoming_.crc = crc32c(elements, incoming_.crc);
  incoming_.offset += elements.size();
  incoming_.chunk_left -= elements.size();
  {
    std::unique_lock lock(mutex_);
    bulk_taken_ += static_cast<int64_t>(elements.size());
    grant(bulk_taken_, 0);
    pump(lock, true);
  }
  if (incoming_.chunk_left > 0 || static_cast<int64_t>(incoming_.offset) < incoming_.claim.bytes)
    return;
  incoming_.active = false;
  if (incoming_.claim.checked && incoming_.message.code == Errc::ok &&
      incoming_.crc != incoming_.claim.crc)
    return fail_protocol("the elements of a tensor were damaged on the way");
  finish_message(std::exchange(incoming_.message, {}));
}

void Link::finish_message(Received message) {
  {
    std::lock_guard lock(mutex_);
    ++stats_.messages_in;
  }
  if (message.payload.defined()) sanitize(message.payload);
  host_.message(*this, std::move(message));
}

}  // namespace troupe

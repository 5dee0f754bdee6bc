// Reads the other side's greetings, and proves and verifies the knowledge of the secret.
#include "net/link/handshake.hpp"

#include <cstring>

#include "net/link/greetings.hpp"
#include "net/wire/address.hpp"

namespace troupe {
namespace {

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

// True for refusals that a process may send to one that has proved nothing, or of which it
// understands nothing.
bool needs_no_proof(Refusal why) {
  return why == Refusal::not_ours || why == Refusal::other_version || why == Refusal::malformed ||
         why == Refusal::other_secret || why == Refusal::untrusted;
}

std::vector<std::byte> bytes_of(const GreetingPacket& packet) {
  return {packet.begin(), packet.end()};
}

// True for the first byte of TLS, which no greeting begins with.
bool is_tls(std::span<const std::byte> bytes) { return bytes[0] == std::byte{0x16}; }

// True if a process with that certificate may send the greeting. A task number is assigned in the
// name of its new owner.
bool may_say(const CertifiedName& certified, const Greeting& greeting) {
  const Hello& h = greeting.hello;
  if (greeting.kind == GreetingKind::assigned) return certified.cluster == h.cluster;
  const bool any = greeting.kind == GreetingKind::ask_task;
  return certified.covers(h.cluster, h.job, any ? certified.task : h.task);
}

constexpr const char* kRemedy = "give both the same --secret-file or TROUPE_SECRET_FILE";

}  // namespace

Handshake::Handshake(Role role, Greeting own, std::shared_ptr<const Secret> secret,
                     const std::string& peer_address)
    : role_(role), own_(std::move(own)), secret_(std::move(secret)) {
  if (!secret_) return;
  const bool dialled = role_ == Role::dialler;
  const std::string& address = dialled ? peer_address : own_.hello.address;
  if (is_loopback_address(address)) dialled_ = address;
  if (!dialled) return;
  own_.nonce = secret_->draw();
  opening_ = bytes_of(without_proof(encode(own_)));
}

Handshake::Step Handshake::refuse(Refusal why, std::string text) const {
  return {Act::end, refusal(own_.hello, why, std::move(text))};
}

Proof Handshake::prove(const GreetingPacket* answer) const {
  const auto address = std::as_bytes(std::span(dialled_));
  return answer ? secret_->prove("troupe acceptor", {address, opening_, challenge_, *answer})
                : secret_->prove("troupe dialler", {address, opening_, challenge_});
}

Handshake::Step Handshake::read(std::span<const std::byte> bytes, const CertifiedName* certified) {
  if (bytes.empty()) return {};
  const bool dialled = role_ == Role::dialler;
  switch (check_prefix(bytes)) {
    case Refusal::none:
      break;
    case Refusal::not_ours:
      turned_away_ = true;
      if (is_tls(bytes))
        return refuse(Refusal::untrusted,
                      detail::concat("the process that dialled has TLS, and ", own_.hello.name(),
                                     " has none; give both --tls or TROUPE_TLS_DIR"));
      return refuse(Refusal::not_ours,
                    dialled ? "what listens there is no node of Troupe; look at the address"
                            : "this port is a link of a Troupe cluster and speaks nothing else");
    default:
      if (dialled && bytes.size() < kGreetingPrefix) return {};  // the text has not arrived yet
      turned_away_ = true;
      return refuse(Refusal::other_version, other_version(bytes, dialled));
  }
  if (bytes.size() < kGreetingBytes) return {};
  const auto packet = bytes.first(kGreetingBytes);
  auto theirs = decode_greeting(packet);
  if (!theirs)
    return refuse(Refusal::malformed, "the greeting was damaged on the way or is not a greeting");
  if (certified && !may_say(*certified, *theirs))
    return refuse(Refusal::untrusted,
                  detail::concat("a process with the certificate of ", certified->words(),
                                 " says that it is ", theirs->hello.name(), " of cluster \"",
                                 theirs->hello.cluster, "\""));
  return dialled ? read_answer(std::move(*theirs), packet) : read_hello(std::move(*theirs), packet);
}

Handshake::Step Handshake::read_hello(Greeting theirs, std::span<const std::byte> packet) {
  if ((theirs.kind != GreetingKind::hello && theirs.kind != GreetingKind::ask_task) ||
      (theirs.proof != Proof{} && !challenged()))
    return refuse(Refusal::malformed, "that greeting makes no sense here");
  const bool knows_one = theirs.nonce != Nonce{};
  const std::string mine = own_.hello.name();
  const std::string other = theirs.kind == GreetingKind::ask_task
                                ? "a process that asks for a task number"
                                : theirs.hello.name();
  if (knows_one != (secret_ != nullptr))
    return refuse(Refusal::other_secret,
                  detail::concat(knows_one ? other : mine, " has a secret and ",
                                 knows_one ? mine : other, " has none; ", kRemedy));
  if (secret_ && !challenged()) {
    opening_ = bytes_of(without_proof(packet));
    Greeting challenge{GreetingKind::challenge, Refusal::none, "", own_.hello};
    challenge.nonce = secret_->draw();
    Step out{Act::send, {}, encode(challenge)};
    challenge_ = bytes_of(without_proof(out.packet));
    return out;
  }
  if (secret_) {
    if (bytes_of(without_proof(packet)) != opening_)
      return refuse(Refusal::malformed,
                    "the greeting after the challenge is not the one before it");
    if (!Secret::same(theirs.proof, prove()))
      return refuse(Refusal::other_secret,
                    detail::concat(other, " has another secret than ", mine,
                                   ", or a relay is between them, or it was dialled at another "
                                   "address than it announces; ",
                                   kRemedy));
    proven_ = true;
  }
  peer_ = theirs.hello;
  return {Act::judge, std::move(theirs)};
}

Handshake::Step Handshake::read_answer(Greeting theirs, std::span<const std::byte> packet) {
  const bool refuses = theirs.kind == GreetingKind::refusal;
  if (secret_ && !challenged() && theirs.kind == GreetingKind::challenge &&
      theirs.proof == Proof{}) {
    challenge_ = bytes_of(without_proof(packet));
    Greeting again = own_;
    again.proof = prove();
    return {Act::send, {}, encode(again)};
  }
  if (secret_ && challenged()) {
    const GreetingPacket answer = without_proof(packet);
    proven_ = Secret::same(theirs.proof, prove(&answer));
  }
  if (secret_ && !proven_) {
    if (!refuses || !needs_no_proof(theirs.refusal))
      return refuse(Refusal::other_secret,
                    detail::concat("the process there does not know the secret of ",
                                   own_.hello.name(), "; ", kRemedy));
  } else {
    peer_ = theirs.hello;
  }
  if (refuses) {
    turned_away_ = true;
    return {Act::end, std::move(theirs)};
  }
  if (theirs.kind == GreetingKind::ask_task || theirs.kind == GreetingKind::challenge)
    return refuse(Refusal::malformed, "that greeting makes no sense here");
  return {Act::judge, std::move(theirs)};
}

GreetingPacket Handshake::seal(Greeting answer) const {
  if (!proven_) return encode(answer);
  const GreetingPacket covered = without_proof(encode(answer));
  answer.proof = prove(&covered);
  return encode(answer);
}

}  // namespace troupe

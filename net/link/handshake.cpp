// Reads the other side's greeting.
#include "net/link/handshake.hpp"

#include <cstring>

#include "net/link/greetings.hpp"

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

}  // namespace

std::optional<Greeting> Handshake::read(std::span<const std::byte> bytes,
                                        std::optional<Greeting>& end) {
  if (bytes.empty()) return std::nullopt;
  const bool dialled = role_ == Role::dialler;
  const auto refuse = [&](Refusal why, std::string text) {
    end = refusal(own_.hello, why, std::move(text));
    return std::nullopt;
  };
  switch (check_prefix(bytes)) {
    case Refusal::none:
      break;
    case Refusal::not_ours:
      turned_away_ = true;
      return refuse(Refusal::not_ours,
                    dialled ? "what listens there is no node of Troupe; look at the address"
                            : "this port is a link of a Troupe cluster and speaks nothing else");
    default:
      if (dialled && bytes.size() < kGreetingPrefix)
        return std::nullopt;  // the text has not arrived yet
      turned_away_ = true;
      return refuse(Refusal::other_version, other_version(bytes, dialled));
  }
  if (bytes.size() < kGreetingBytes) return std::nullopt;
  auto theirs = decode_greeting(bytes.first(kGreetingBytes));
  if (!theirs)
    return refuse(Refusal::malformed, "the greeting was damaged on the way or is not a greeting");
  peer_ = theirs->hello;
  if (dialled && theirs->kind == GreetingKind::refusal) {
    turned_away_ = true;
    end = std::move(theirs);
    return std::nullopt;
  }
  const bool asks = theirs->kind == GreetingKind::ask_task;
  if (dialled ? asks : !asks && theirs->kind != GreetingKind::hello)
    return refuse(Refusal::malformed, "that greeting makes no sense here");
  return theirs;
}

}  // namespace troupe

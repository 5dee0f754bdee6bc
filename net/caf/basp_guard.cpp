// The checks of BaspGuard. CAF's headers caf/io/basp/header.hpp and message_type.hpp define the
// layout and the kinds.
#include "net/caf/basp_guard.hpp"

#include <algorithm>
#include <string_view>

#include <caf/all.hpp>
#include <caf/io/basp/message_type.hpp>

#include "net/caf/caf_bridge.hpp"
#include "troupe/error.hpp"

namespace troupe {
namespace {

using caf::io::basp::message_type;

// Our own messages nest as answer, error, message. CAF reads deeper nesting by recursion.
constexpr int kMessagesMax = 16;  // in one payload

std::vector<char> bytes_of(const NodeId& node) {
  std::vector<char> out;
  caf::binary_serializer sink(nullptr, out);
  if (const auto error = sink(caf_node_id(node)))
    throw InternalError("a node id cannot be written down");
  return out;
}

// BASP numbers are big-endian.
template <class T>
T number_at(std::span<const char> bytes, size_t at) {
  T out = 0;
  for (char c : bytes.subspan(at, sizeof(T)))
    out = static_cast<T>(out << 8 | static_cast<uint8_t>(c));
  return out;
}

// Returns the part of a payload's content that CAF 0.17 cannot handle, or an empty string. A
// payload names its types, joined by '+', after the "@<>" that begins each message; a text that
// looks like that is refused, too.
std::string fault_in(std::string_view payload) {
  int messages = 0;
  for (size_t at = payload.find('@'); at != payload.npos; at = payload.find('@', at + 1)) {
    const std::string_view rest = payload.substr(at);
    if (rest.starts_with("@<>+") && ++messages > kMessagesMax)
      return detail::concat("more than ", kMessagesMax, " messages are in one");
    if (at == 0 || payload[at - 1] != '+') continue;
    // CAF allocates as many bytes as the value claims, before it checks that they are there.
    if (rest.starts_with("@charbuf")) return "a value is of type @charbuf, and there are none";
    // CAF reads nested lists by recursion.
    if (rest.starts_with("@config_value"))
      return "a value is of type @config_value, and there are none";
  }
  return {};
}

}  // namespace

BaspGuard::BaspGuard(const NodeId& peer, bool dialler) : dialler_(dialler), node_(bytes_of(peer)) {}

std::string BaspGuard::check(std::span<const char> unit) {
  if (!std::exchange(in_payload_, false)) return check_header(unit);
  if (std::exchange(in_handshake_, false) &&
      (unit.size() < node_.size() || !std::equal(node_.begin(), node_.end(), unit.begin())))
    return "its handshake is of another node";
  return fault_in({unit.data(), unit.size()});
}

std::string BaspGuard::check_header(std::span<const char> header) {
  if (header.size() != kHeader) return "a header is cut";
  const auto kind = static_cast<message_type>(header[0]);
  const auto length = number_at<uint32_t>(header, 4);
  const caf::message_id id{number_at<uint64_t>(header, 8)};
  if (kind > message_type::heartbeat)
    return detail::concat("messages of kind ", int{static_cast<uint8_t>(header[0])},
                          " are not known");
  if (length > kCafMessageMax)
    return detail::concat("a message of ", length, " bytes is past the limit of ", kCafMessageMax);
  if ((length == 0) != (kind == message_type::heartbeat))
    return detail::concat("a message of kind ", int{static_cast<uint8_t>(header[0])}, " has ",
                          length, " bytes");
  const bool handshake =
      kind == message_type::server_handshake || kind == message_type::client_handshake;
  if (!handshake && !greeted_) return "the handshake is not first";
  // A client may repeat its handshake.
  if (handshake && (kind == message_type::server_handshake) != dialler_)
    return "it shakes hands as if it had our part";
  if ((kind == message_type::direct_message || kind == message_type::routed_message) &&
      id.category() > caf::message_id::normal_message_category)
    return "a message is of a stream, and there are none";
  greeted_ = true;
  in_handshake_ = handshake;
  in_payload_ = length > 0;
  return {};
}

}  // namespace troupe

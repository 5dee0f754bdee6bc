// The bytes of CAF's protocol inside a link, as the guard checks them.
//
// An input is a list of units: a header of 32 bytes and, where its length says so, a payload.
#include "net/caf/basp_guard.hpp"

#include <caf/all.hpp>

#include "net/caf/caf_bridge.hpp"
#include "tests/fuzz/targets.hpp"

namespace troupe::fuzz {
namespace {

NodeId peer() {
  NodeId out;
  out.process = 4711;
  out.host.fill(0xab);
  return out;
}

// BASP numbers are big-endian.
uint32_t length_in(std::string_view header) {
  uint32_t out = 0;
  for (size_t i = 4; i < 8; ++i) out = out << 8 | static_cast<uint8_t>(header[i]);
  return out;
}

std::string header(uint8_t kind, uint32_t length, char target) {
  std::string out(BaspGuard::kHeader, '\0');
  out[0] = static_cast<char>(kind);
  for (size_t i = 0; i < 4; ++i) out[4 + i] = static_cast<char>(length >> (24 - 8 * i));
  out[31] = target;
  return out;
}

std::string handshake() {
  std::vector<char> payload;
  caf::binary_serializer sink(nullptr, payload);
  if (sink(caf_node_id(peer()))) return {};
  return header(1, static_cast<uint32_t>(payload.size()), 0) +
         std::string(payload.begin(), payload.end());
}

void run_basp(std::string_view bytes) {
  for (const bool dialler : {true, false}) {
    BaspGuard guard(peer(), dialler);
    for (Input in(bytes); !in.empty();) {
      const std::string_view head = in.text(BaspGuard::kHeader);
      if (head.size() < BaspGuard::kHeader || !guard.check(head).empty()) break;
      const uint32_t length = length_in(head);
      if (length == 0) continue;
      const std::string_view payload = in.text(length);
      if (payload.size() < length || !guard.check(payload).empty()) break;
    }
  }
}

Seeds seeds() {
  std::vector<char> head;
  caf::binary_serializer sink(nullptr, head);
  size_t stages = 0;
  uint16_t named = 0;
  std::string name = "@<>+@message";
  if (sink.begin_sequence(stages) || sink.begin_object(named, name)) return {};
  const std::string payload(head.begin(), head.end());
  return {handshake(), handshake() + header(2, static_cast<uint32_t>(payload.size()), 1) + payload,
          handshake() + header(4, 3, 1) + "abc"};
}

}  // namespace

Target basp_target() { return {"basp", run_basp, seeds}; }

}  // namespace troupe::fuzz

// BaspGuard: what CAF 0.17's own reading takes for granted about the bytes of a peer, checked
// before CAF sees them: without it, a header without the payload that its kind has ends the
// process, a handshake may claim to be of another node, a value of type @charbuf (vector<char>)
// takes as much memory as it says to need, and messages in messages end on the stack. No message of
// ours holds such values; a text is a std::string, whose size CAF checks. State of one connection,
// no CAF actors in it.
//
// Owner: the scribe (caf_bridge.cpp).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "net/link/hello.hpp"

namespace troupe {

class BaspGuard {
 public:
  static constexpr size_t kHeader = 32;

  // `peer`: who is at the other end. `dialler`: we have dialled, so the peer shakes hands first.
  BaspGuard(const NodeId& peer, bool dialler);
  // Looks at the next unit, a header or the payload that it announced. Empty if CAF may have it,
  // else what is wrong with it.
  std::string check(std::span<const char> unit);

 private:
  std::string check_header(std::span<const char> header);

  const bool dialler_;
  const std::vector<char> node_;  // how the payload of the peer's handshake begins
  bool greeted_ = false, in_handshake_ = false, in_payload_ = false;
};

}  // namespace troupe

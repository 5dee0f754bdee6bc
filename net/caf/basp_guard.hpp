// BaspGuard: checks a peer's bytes (BASP) before CAF 0.17 reads them, because CAF trusts them.
// Without the guard, a header whose kind requires a payload but that has none aborts the process, a
// handshake may claim another node's id, a value of type @charbuf (vector<char>) allocates the size
// that it claims, and nested messages overflow the stack. Troupe's own messages hold no such
// values; their texts are std::string, whose size CAF checks. Holds the state of one connection and
// no CAF actors.
//
// Owner: the scribe (caf_bridge.cpp). Thread: CAF's network thread.
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

  // `peer`: the process at the other end. `dialler`: this side dialled, so the peer's handshake
  // comes first.
  BaspGuard(const NodeId& peer, bool dialler);
  // Checks the next unit: a header, or the payload that the last header announced. Returns an empty
  // string if CAF may read it, else the fault.
  std::string check(std::span<const char> unit);

 private:
  std::string check_header(std::span<const char> header);

  const bool dialler_;
  const std::vector<char> node_;  // the first bytes of the payload of the peer's handshake
  bool greeted_ = false, in_handshake_ = false, in_payload_ = false;
};

}  // namespace troupe

// Secret: bytes that all processes of a cluster know and other users of their machines do not. A
// process proves that it knows them without showing them: HMAC-SHA256 with the secret as key, over
// numbers that each side has drawn for this connection (handshake.hpp).
//
// Owner: shared by the options of a mesh and its links. Thread: any.
#pragma once

#include <array>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "net/link/seams.hpp"

namespace troupe {

using Nonce = std::array<std::byte, 32>;  // drawn for one connection; all zero: none
using Proof = std::array<std::byte, 32>;

class Secret {
 public:
  // `rng` outlives the links that begin with this secret.
  Secret(std::string key, Rng& rng) : key_(std::move(key)), rng_(rng) {}
  ~Secret();  // wipes the key
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;

  Nonce draw() const;
  // The proof over `label` and `parts`. Different labels keep a proof of one side from being one of
  // the other.
  Proof prove(std::string_view label,
              std::initializer_list<std::span<const std::byte>> parts) const;
  // Takes equally long wherever the two differ.
  static bool same(const Proof& a, const Proof& b);

 private:
  std::string key_;
  Rng& rng_;
};

// The variable that names the file of the secret.
inline constexpr const char* kSecretVariable = "TROUPE_SECRET_FILE";
// The bytes of `file` without white space at their end. If `file` is empty: those of the file that
// TROUPE_SECRET_FILE names; none if the variable is not set. Throws: Error(io) for a file that
// cannot be read; Error(bad_configuration) for one that other users can read or write, that belongs
// to another user, or that has fewer than 16 or more than 1,024 bytes.
std::string read_secret(const std::string& file);

}  // namespace troupe

// Hello: the first packet that each side of a link sends, of fixed size. It names the speaker and
// accepts or refuses the link.
//
//   dialler                       acceptor
//   hello  ---------------------->  judges it
//          <----------------------  hello, or a refusal with a text
//   confirm (first frame)  ------>  from here on both may send frames
//
// With a secret, two packets come before the judgement, and the answer has a proof, too:
//
//   hello, with a nonce  -------->  judges nothing
//          <----------------------  challenge, with a nonce
//   hello again, with a proof  -->  verifies it, judges
//
// The first 256 bytes (magic, version, kind, refusal, text) have the same layout in all versions,
// so that a refusal is always readable. Before the greeting, a connection allocates memory for
// three packets only.
//
// Owner: the code that builds it. Thread: any.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "net/link/seams.hpp"
#include "net/wire/address.hpp"
#include "net/link/secret.hpp"

namespace troupe {

inline constexpr uint16_t kProtocolVersion =
    17;  // raised by every change of greetings, frames or messages
inline constexpr size_t kGreetingBytes = 832;
inline constexpr size_t kGreetingPrefix = 256;

// The fields of CAF's node id.
struct NodeId {
  uint32_t process = 0;
  std::array<uint8_t, 20> host{};
  friend bool operator==(const NodeId&, const NodeId&) = default;
  friend auto operator<=>(const NodeId&, const NodeId&) = default;
};

struct Hello {
  std::string cluster;
  std::string job;
  int32_t task = 0;
  uint64_t incarnation = 0;
  NodeId node;
  uint64_t fingerprint = 0;  // of the op registry
  uint64_t machine = 0;      // instruction sets, machine_bits()
  uint32_t silence = 1500;   // ms after which it takes a silent peer as dead (liveness.hpp)
  std::string address;       // where this process listens
  std::string ops;           // ops that are not built in, from own_ops()

  std::string name() const;  // "/job:ps/task:1"
};

// Why a link was refused. The comments say how the dialler reacts.
enum class Refusal : uint8_t {
  none = 0,
  not_ours,           // give up: the other side speaks another protocol
  other_version,      // give up
  other_cluster,      // give up
  other_ops,          // give up
  stale_incarnation,  // give up: a newer process has the task
  task_taken,         // retry for a while: the other process may be dying
  same_node,          // give up: two processes with one node id
  itself,             // forget the address: it is this process's own
  linked,             // nothing: a link exists already
  busy,               // retry: too many members or too many requests for a task number
  malformed,          // give up
  other_secret,       // give up: one side does not know the other's secret
  untrusted,          // give up: one side has no TLS, or its certificate has another name
};
const char* to_string(Refusal refusal);

enum class GreetingKind : uint8_t {
  hello = 1,
  refusal,
  ask_task,   // dialler: which task number of hello.job is free?
  assigned,   // acceptor: hello.task is
  redirect,   // acceptor: ask the process at hello.address
  challenge,  // acceptor: prove that you know the secret
};

struct Greeting {
  GreetingKind kind = GreetingKind::hello;
  Refusal refusal = Refusal::none;
  std::string text;
  Hello hello;    // of the speaker
  Nonce nonce{};  // of a speaker with a secret
  Proof proof{};
};

using GreetingPacket = std::array<std::byte, kGreetingBytes>;
GreetingPacket encode(const Greeting& greeting);
// The greeting of `bytes` as proofs cover it: proof and checksum are zero. Requires: kGreetingBytes
// bytes.
GreetingPacket without_proof(std::span<const std::byte> bytes);
// Checks the first bytes as they arrive. Returns `none` while they can still become a greeting of
// this version.
Refusal check_prefix(std::span<const std::byte> bytes);
// Requires: kGreetingBytes bytes. Returns nothing if they are damaged.
std::optional<Greeting> decode_greeting(std::span<const std::byte> bytes);
// The text in the prefix of a refusal by a process of another version; empty if it is no refusal.
std::string refusal_text(std::span<const std::byte> prefix);

// A bit for each of AVX2 (1), FMA (2) and AVX-512F (4) that the processor has.
uint64_t machine_bits();

}  // namespace troupe

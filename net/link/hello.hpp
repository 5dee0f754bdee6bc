// Hello: the first thing each side of a link says, in a packet of fixed size: who it is, and
// whether it will talk at all.
//
//   dialler                       acceptor
//   hello  ---------------------->  judges it
//          <----------------------  hello, or a refusal in words
//   confirm (first frame)  ------>  from here on both may send frames
//
// The first 256 bytes (magic, version, kind, refusal, text) keep their form in all versions, so
// that a refusal can always be read. Nothing is allocated for a stranger but this packet.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "net/link/seams.hpp"

namespace troupe {

inline constexpr uint16_t kProtocolVersion =
    7;  // grows with every change of hello, frames or messages
inline constexpr size_t kGreetingBytes = 768;
inline constexpr size_t kGreetingPrefix = 256;
inline constexpr size_t kNameMax = 63;  // cluster and job names
inline constexpr size_t kAddressMax = 127;

// What CAF's node id is made of.
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
  std::string address;       // where the speaker listens
  std::string ops;           // that are not built in, own_ops()

  std::string name() const;  // "/job:ps/task:1"
};

// Why a link does not come about. The second column: what the dialler does.
enum class Refusal : uint8_t {
  none = 0,
  not_ours,           // give up: it speaks something else
  other_version,      // give up
  other_cluster,      // give up
  other_ops,          // give up
  stale_incarnation,  // give up: a newer process has the task
  task_taken,         // try again for a while: perhaps the other one is just dying
  same_node,          // give up: two processes with one node id
  itself,             // forget the address: it is our own
  linked,             // nothing: there is a link already
  busy,               // try again: too many members, or too many ask for a task number
  malformed,          // give up
};
const char* to_string(Refusal refusal);

enum class GreetingKind : uint8_t {
  hello = 1,
  refusal,
  ask_task,  // dialler: which task number of hello.job is free?
  assigned,  // acceptor: hello.task is
  redirect,  // acceptor: ask at hello.address
};

struct Greeting {
  GreetingKind kind = GreetingKind::hello;
  Refusal refusal = Refusal::none;
  std::string text;
  Hello hello;  // of the speaker
};

std::array<std::byte, kGreetingBytes> encode(const Greeting& greeting);
// Looks at the first bytes as they come: `none` as long as they can still become a greeting of our
// version.
Refusal check_prefix(std::span<const std::byte> bytes);
// Requires: kGreetingBytes of them. Nothing if they are damaged.
std::optional<Greeting> decode_greeting(std::span<const std::byte> bytes);
// Of a refusal by a process of another version: what its prefix says.
std::string refusal_text(std::span<const std::byte> prefix);

// Which of AVX2 (1), FMA (2) and AVX-512F (4) the processor has.
uint64_t machine_bits();

}  // namespace troupe

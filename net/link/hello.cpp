// Encodes, checks and decodes the greeting packet.
#include "net/link/hello.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "graph/base/crc32c.hpp"
#include "net/wire/own_ops.hpp"

namespace troupe {
namespace {

// a line end, so that text protocols notice early
constexpr std::string_view kMagic = "TROUPE\r\n";

// Offsets in the packet. The ones below 256 are the same in all versions.
constexpr size_t kAtVersion = 8, kAtKind = 10, kAtRefusal = 11, kAtText = 16;
constexpr size_t kAtCluster = 256, kAtJob = 320, kAtAddress = 384, kAtNumbers = 512, kAtOps = 576,
                 kAtNonce = 764, kAtProof = 796, kAtCrc = kGreetingBytes - 4;
static_assert(kAtOps + kOwnOpsMax + 1 <= kAtNonce && kAtProof + sizeof(Proof) == kAtCrc);

void put_text(GreetingPacket& out, size_t at, size_t size, std::string_view text) {
  std::memcpy(out.data() + at, text.data(), std::min(text.size(), size - 1));
}

// The text up to the first zero byte; nothing if there is none within `size`.
std::optional<std::string> get_text(std::span<const std::byte> in, size_t at, size_t size) {
  const char* p = reinterpret_cast<const char*>(in.data() + at);
  const void* end = std::memchr(p, 0, size);
  if (!end) return std::nullopt;
  return std::string(p, static_cast<const char*>(end));
}

// The fields of a Hello in the packet.
struct TextField {
  size_t at, size;  // with the zero byte that ends it
  std::string Hello::*field;
};
constexpr TextField kTexts[] = {{kAtCluster, kNameMax + 1, &Hello::cluster},
                                {kAtJob, kNameMax + 1, &Hello::job},
                                {kAtAddress, kAddressMax + 1, &Hello::address},
                                {kAtOps, kOwnOpsMax + 1, &Hello::ops}};
template <class H, class V>
void visit_numbers(H& hello, V&& visit) {
  size_t at = kAtNumbers;
  const auto one = [&](auto& value) {
    visit(at, value);
    at += sizeof value;
  };
  one(hello.task);
  one(hello.incarnation);
  one(hello.node.process);
  one(hello.node.host);
  one(hello.fingerprint);
  one(hello.machine);
  one(hello.silence);
}

}  // namespace

std::string Hello::name() const { return detail::concat("/job:", job, "/task:", task); }

const char* to_string(Refusal refusal) {
  switch (refusal) {
    case Refusal::none:
      return "none";
    case Refusal::not_ours:
      return "not_ours";
    case Refusal::other_version:
      return "other_version";
    case Refusal::other_cluster:
      return "other_cluster";
    case Refusal::other_ops:
      return "other_ops";
    case Refusal::stale_incarnation:
      return "stale_incarnation";
    case Refusal::task_taken:
      return "task_taken";
    case Refusal::same_node:
      return "same_node";
    case Refusal::itself:
      return "itself";
    case Refusal::linked:
      return "linked";
    case Refusal::busy:
      return "busy";
    case Refusal::malformed:
      return "malformed";
    case Refusal::other_secret:
      return "other_secret";
    case Refusal::untrusted:
      return "untrusted";
  }
  return "unknown";
}

GreetingPacket encode(const Greeting& greeting) {
  GreetingPacket out{};
  const Hello& h = greeting.hello;
  TROUPE_CHECK(
      h.cluster.size() <= kNameMax && h.job.size() <= kNameMax && h.address.size() <= kAddressMax,
      "cluster ", h.cluster, ", job ", h.job, " or address ", h.address,
      " is too long for a hello");
  std::memcpy(out.data(), kMagic.data(), kMagic.size());
  const uint16_t version = kProtocolVersion;
  std::memcpy(out.data() + kAtVersion, &version, sizeof version);
  out[kAtKind] = static_cast<std::byte>(greeting.kind);
  out[kAtRefusal] = static_cast<std::byte>(greeting.refusal);
  put_text(out, kAtText, kGreetingPrefix - kAtText, greeting.text);
  for (const auto& [at, size, field] : kTexts) put_text(out, at, size, h.*field);
  visit_numbers(
      h, [&](size_t at, const auto& value) { std::memcpy(out.data() + at, &value, sizeof value); });
  std::memcpy(out.data() + kAtNonce, greeting.nonce.data(), greeting.nonce.size());
  std::memcpy(out.data() + kAtProof, greeting.proof.data(), greeting.proof.size());
  const uint32_t crc = crc32c(std::span(out).first(kAtCrc));
  std::memcpy(out.data() + kAtCrc, &crc, sizeof crc);
  return out;
}

GreetingPacket without_proof(std::span<const std::byte> bytes) {
  GreetingPacket out{};
  std::memcpy(out.data(), bytes.data(), kAtProof);
  return out;
}

Refusal check_prefix(std::span<const std::byte> bytes) {
  if (std::memcmp(bytes.data(), kMagic.data(), std::min(bytes.size(), kMagic.size())) != 0)
    return Refusal::not_ours;
  if (bytes.size() < kAtKind) return Refusal::none;
  uint16_t version;
  std::memcpy(&version, bytes.data() + kAtVersion, sizeof version);
  return version == kProtocolVersion ? Refusal::none : Refusal::other_version;
}

std::optional<Greeting> decode_greeting(std::span<const std::byte> in) {
  uint32_t crc;
  std::memcpy(&crc, in.data() + kAtCrc, sizeof crc);
  const auto kind = static_cast<uint8_t>(in[kAtKind]);
  const auto refusal = static_cast<uint8_t>(in[kAtRefusal]);
  if (crc != crc32c(in.first(kAtCrc)) || kind < 1 ||
      kind > static_cast<uint8_t>(GreetingKind::challenge) ||
      refusal > static_cast<uint8_t>(Refusal::untrusted))
    return std::nullopt;
  Greeting out;
  out.kind = static_cast<GreetingKind>(kind);
  out.refusal = static_cast<Refusal>(refusal);
  const auto text = get_text(in, kAtText, kGreetingPrefix - kAtText);
  if (!text || !is_printable(*text)) return std::nullopt;
  out.text = *text;
  Hello& h = out.hello;
  for (const auto& [at, size, field] : kTexts) {
    auto value = get_text(in, at, size);
    if (!value) return std::nullopt;
    h.*field = std::move(*value);
  }
  visit_numbers(h,
                [&](size_t at, auto& value) { std::memcpy(&value, in.data() + at, sizeof value); });
  if (!is_good_name(h.cluster) || !is_good_name(h.job) || !is_printable(h.address) ||
      !is_printable(h.ops) || h.task < 0)
    return std::nullopt;
  std::memcpy(out.nonce.data(), in.data() + kAtNonce, out.nonce.size());
  std::memcpy(out.proof.data(), in.data() + kAtProof, out.proof.size());
  return out;
}

std::string refusal_text(std::span<const std::byte> prefix) {
  if (prefix.size() < kGreetingPrefix ||
      static_cast<uint8_t>(prefix[kAtKind]) != static_cast<uint8_t>(GreetingKind::refusal))
    return {};
  const std::string text = get_text(prefix, kAtText, kGreetingPrefix - kAtText).value_or("");
  return is_printable(text) ? text : "";
}

uint64_t machine_bits() {
  uint64_t bits = 0;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) bits |= 1;
  if (__builtin_cpu_supports("fma")) bits |= 2;
  if (__builtin_cpu_supports("avx512f")) bits |= 4;
#endif
  return bits;
}

}  // namespace troupe

// The first packets of a connection: greetings, and the exchange of both sides.
#include <cstring>

#include "graph/base/crc32c.hpp"
#include "net/link/handshake.hpp"
#include "tests/fuzz/targets.hpp"

namespace troupe::fuzz {
namespace {

Greeting own() {
  Hello hello{.cluster = "troupe", .job = "ps", .task = 0, .incarnation = 1};
  hello.address = "127.0.0.1:7000";
  return {GreetingKind::hello, Refusal::none, "", hello};
}

struct Counter final : Rng {
  uint64_t next() override { return ++count; }
  uint64_t count = 0;
};

void read_all(std::string_view bytes, Handshake::Role role,
              const std::shared_ptr<const Secret>& secret) {
  Handshake handshake(role, own(), secret, "127.0.0.1:7001");
  for (Input in(bytes); !in.empty();) {
    const std::string_view packet = in.text(kGreetingBytes);
    if (handshake.read(bytes_of(packet)).act != Handshake::Act::send) return;
  }
}

void read_all(std::string_view bytes) {
  Counter rng;
  const auto secret = std::make_shared<const Secret>("sixteen bytes or more", rng);
  for (const auto role : {Handshake::Role::acceptor, Handshake::Role::dialler})
    for (const auto& known : {secret, std::shared_ptr<const Secret>()})
      read_all(bytes, role, known);
}

void run_greeting(std::string_view bytes) {
  read_all(bytes);
  if (bytes.size() < kGreetingBytes) return;
  // With a checksum that is right, or little gets past it.
  std::string sealed(bytes.substr(0, kGreetingBytes));
  const uint32_t crc = crc32c(bytes_of(std::string_view(sealed).substr(0, kGreetingBytes - 4)));
  std::memcpy(sealed.data() + kGreetingBytes - 4, &crc, sizeof crc);
  read_all(sealed);
  if (const auto greeting = decode_greeting(bytes_of(sealed)))
    promise(decode_greeting(encode(*greeting)).has_value(), "a greeting can be said again");
}

Seeds seeds() {
  Seeds out;
  Greeting greeting = own();
  for (const auto kind : {GreetingKind::hello, GreetingKind::ask_task, GreetingKind::redirect,
                          GreetingKind::challenge}) {
    greeting.kind = kind;
    greeting.nonce.fill(std::byte{7});
    out.push_back(text_of(encode(greeting)));
  }
  greeting.kind = GreetingKind::refusal;
  greeting.refusal = Refusal::busy;
  greeting.text = "come back later";
  out.push_back(text_of(encode(greeting)));
  return out;
}

}  // namespace

Target greeting_target() { return {"greeting", run_greeting, seeds}; }

}  // namespace troupe::fuzz

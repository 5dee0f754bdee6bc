// Links of processes with one secret, with two, or with none; packets that a process without it
// sends, repeats, changes or passes on.
#include "graph/base/crc32c.hpp"
#include "tests/support/link_pair.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

// Takes the first packet of those that were heard; empty if there is none.
std::string take_packet(Stranger& from) {
  if (from.heard.size() < kGreetingBytes) return "";
  const std::string out = from.heard.substr(0, kGreetingBytes);
  from.heard.erase(0, kGreetingBytes);
  return out;
}

Greeting greeting_in(const std::string& packet) {
  return decode_greeting(std::as_bytes(std::span(packet))).value();
}

// The packet with one byte changed, and a checksum that matches it.
std::string changed(std::string packet, size_t at) {
  packet[at] = static_cast<char>(packet[at] ^ (1 << (at % 8)));
  const size_t covered = kGreetingBytes - sizeof(uint32_t);
  const uint32_t crc = crc32c(std::as_bytes(std::span(packet)).first(covered));
  std::memcpy(packet.data() + covered, &crc, sizeof crc);
  return packet;
}

// a has dialled a thief, who has dialled b.
struct Thief : LinkPair {
  sim::SimHost& host;
  std::unique_ptr<Stranger> to_a, to_b;
  int packets = 0;

  explicit Thief(const std::string& address = "127.0.0.1:1", uint64_t seed = 1)
      : LinkPair(seed), host(net.add("thief")) {
    give_secret(a), give_secret(b);
    auto [x, y] = net.connect(left, host);
    auto [v, w] = net.connect(host, right);
    to_a = std::make_unique<Stranger>(y), to_b = std::make_unique<Stranger>(v);
    Hello acceptor = hello_of("ps", 0);
    acceptor.address = address;
    b.open(Link::Role::acceptor, w, acceptor);
    a.open(Link::Role::dialler, x, hello_of("worker", 1));
  }
  // Passes packets on until nothing more comes; `change` gets the number of each.
  void relay(const std::function<std::string(int, std::string)>& change = {}) {
    for (bool any = true; any;) {
      net.run_for(20ms);
      any = false;
      for (auto [from, to] : {std::pair{to_a.get(), to_b.get()}, std::pair{to_b.get(), to_a.get()}})
        for (std::string packet; !(packet = take_packet(*from)).empty(); any = true) {
          to->say(change ? change(packets, packet) : packet);
          ++packets;
        }
    }
  }
};

}  // namespace

TEST_CASE("links of processes with one secret greet and carry messages, however bytes are split") {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    LinkPair p(seed);
    give_secret(p.a), give_secret(p.b);
    p.net.faults.piece_max = seed % 2 ? 700 : 1;
    p.connect_both();
    CHECK(p.a.judged == 1);
    CHECK(p.b.judged == 1);
    CHECK(p.a.link->peer().name() == "/job:ps/task:0");
    CHECK(p.b.link->peer().name() == "/job:worker/task:1");
    p.a.send(5, 6, Push{1, 2, 3, 1000, 5, 6, 7, ramp(1000)});
    p.b.send(8, 9, StartStep{1, 2, 3, 4, 5, 6});
    REQUIRE(
        p.net.run_until([&] { return p.b.messages.size() == 1 && p.a.messages.size() == 1; }, 60s));
  }
}

TEST_CASE("processes whose secrets differ do not link, and both are told so") {
  struct Case {
    std::string left, right, words;
  };
  for (const Case& c : std::vector<Case>{
           {"a key of the left", "a key of the right", "another secret"},
           {"a key of the left", "", "/job:worker/task:1 has a secret and /job:ps/task:0 has none"},
           {"", "a key of the right",
            "/job:ps/task:0 has a secret and /job:worker/task:1 has none"}}) {
    CAPTURE(c.words);
    LinkPair p;
    if (!c.left.empty()) give_secret(p.a, c.left);
    if (!c.right.empty()) give_secret(p.b, c.right);
    p.connect();
    REQUIRE(p.net.run_until([&] { return p.a.closed_ && p.b.closed_; }, 1s));
    CHECK(p.a.judged + p.b.judged == 0);
    for (const LinkEnd* end : {&p.a, &p.b}) {
      CHECK(end->refusal == Refusal::other_secret);
      CHECK(end->reason.find(c.words) != std::string::npos);
      CHECK(end->reason.find("give both the same --secret-file") != std::string::npos);
    }
    CHECK(p.a.link->turned_away());
    CHECK(!p.b.link->turned_away());
  }
}

TEST_CASE("a refusal after the proofs reaches the dialler in words") {
  LinkPair p;
  give_secret(p.a), give_secret(p.b);
  p.b.answer = {GreetingKind::refusal, Refusal::other_ops, "other ops", {}};
  p.connect();
  p.b.answer.hello = hello_of("ps", 0);
  REQUIRE(p.net.run_until([&] { return p.a.closed_; }, 1s));
  CHECK(p.a.reason == "other ops");
  CHECK(p.a.refusal == Refusal::other_ops);
  CHECK(p.a.link->turned_away());
}

TEST_CASE("an acceptor that proves nothing is not linked, and ends nobody by its refusals") {
  for (const Refusal why : {Refusal::none, Refusal::stale_incarnation, Refusal::task_taken}) {
    LinkPair p;
    give_secret(p.a);
    auto [x, y] = p.net.connect(p.left, p.right);
    p.a.open(Link::Role::dialler, x, hello_of("worker", 1));
    Stranger thief(y);
    const auto kind = why == Refusal::none ? GreetingKind::hello : GreetingKind::refusal;
    thief.say(encode(Greeting{kind, why, "go away", hello_of("ps", 0)}));
    REQUIRE(p.net.run_until([&] { return p.a.closed_; }, 1s));
    CHECK(p.a.judged == 0);
    CHECK(p.a.refusal == Refusal::other_secret);
    CHECK(!p.a.link->turned_away());
    CHECK(p.a.reason.find("does not know the secret") != std::string::npos);
  }
}

TEST_CASE("a change of any byte of any greeting keeps the link from coming up") {
  for (int packet = 0; packet < 4; ++packet)
    for (size_t at = 0; at < kGreetingBytes - sizeof(uint32_t); ++at) {
      CAPTURE(packet);
      CAPTURE(at);
      Thief t;
      t.relay([&](int number, std::string bytes) {
        return number == packet ? changed(std::move(bytes), at) : bytes;
      });
      CHECK(!t.a.up);
      CHECK(!t.b.up);
      CHECK(t.a.judged == 0);
      if (packet < 3) CHECK(t.b.judged == 0);
    }
  Thief t;
  t.relay();
  CHECK(t.packets == 4);
  CHECK(t.a.up);
}

TEST_CASE("a thief of a port on loopback cannot pass greetings on to another member") {
  Thief t("127.0.0.1:2");
  t.relay();
  CHECK(t.b.judged == 0);
  CHECK(t.b.refusal == Refusal::other_secret);
  CHECK(t.b.reason.find("a relay") != std::string::npos);
  CHECK(!t.a.up);
}

TEST_CASE("recorded greetings prove nothing on another connection") {
  std::vector<std::string> record;
  Thief t;
  t.relay([&](int, std::string bytes) { return record.emplace_back(bytes); });
  REQUIRE(record.size() == 4);
  LinkPair p(2);  // draws other numbers
  give_secret(p.b);
  auto [x, y] = p.net.connect(p.left, p.right);
  p.b.open(Link::Role::acceptor, y, hello_of("ps", 0));
  Stranger s(x);
  s.say(record[0]);
  REQUIRE(p.net.run_until([&] { return s.heard.size() >= kGreetingBytes; }, 1s));
  CHECK(greeting_in(take_packet(s)).kind == GreetingKind::challenge);
  s.say(record[2]);
  REQUIRE(p.net.run_until([&] { return p.b.closed_; }, 1s));
  CHECK(p.b.judged == 0);
  CHECK(p.b.refusal == Refusal::other_secret);
}

TEST_CASE("a dialler's own proof is none of the acceptor's") {
  LinkPair p;
  give_secret(p.a);
  auto [x, y] = p.net.connect(p.left, p.right);
  p.a.open(Link::Role::dialler, x, hello_of("worker", 1));
  Stranger mirror(y);
  REQUIRE(p.net.run_until([&] { return mirror.heard.size() >= kGreetingBytes; }, 1s));
  Greeting challenge = greeting_in(take_packet(mirror));
  challenge.kind = GreetingKind::challenge;
  mirror.say(encode(challenge));
  REQUIRE(p.net.run_until([&] { return mirror.heard.size() >= kGreetingBytes; }, 1s));
  mirror.say(take_packet(mirror));
  REQUIRE(p.net.run_until([&] { return p.a.closed_; }, 1s));
  CHECK(p.a.judged == 0);
  CHECK(p.a.refusal == Refusal::other_secret);
}

TEST_CASE(
    "a stranger that is challenged has five seconds and three packets, and gets no frame in") {
  LinkPair p;
  give_secret(p.b);
  auto [x, y] = p.net.connect(p.left, p.right);
  p.b.open(Link::Role::acceptor, y, hello_of("ps", 0));
  Stranger s(x);
  Greeting hello{GreetingKind::hello, Refusal::none, "", hello_of("worker", 1)};
  hello.nonce[0] = std::byte{1};
  s.say(encode(hello));
  p.net.run_for(4900ms);
  CHECK(!p.b.closed_);
  CHECK(p.b.link->state() == Link::State::greeting);
  p.net.run_for(300ms);
  CHECK(p.b.closed_);
  CHECK(p.b.judged == 0);

  LinkEnd again(p.right);
  give_secret(again);
  auto [v, w] = p.net.connect(p.left, p.right);
  again.open(Link::Role::acceptor, w, hello_of("ps", 0));
  Stranger other(v);
  other.say(encode(hello));
  hello.kind = GreetingKind::ask_task;
  other.say(encode(hello));
  REQUIRE(p.net.run_until([&] { return again.closed_; }, 1s));
  CHECK(again.refusal == Refusal::malformed);
  CHECK(again.judged == 0);
}

}  // namespace troupe

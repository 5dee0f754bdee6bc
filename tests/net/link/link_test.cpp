// Links over an in-memory transport under virtual time: how they begin, how they end.
#include "tests/support/link_pair.hpp"
#include "tests/support/raw_frames.hpp"

namespace troupe {

using namespace std::chrono_literals;

TEST_CASE("two links greet, and messages of all sizes arrive whole, however the bytes are split") {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    LinkPair p(seed);
    p.net.faults.piece_max = seed % 2 ? 700 : 0;
    p.net.faults.window = seed % 3 ? 100'000 : 1 << 20;
    p.connect_both();
    CHECK(p.a.link->peer().name() == "/job:ps/task:0");
    CHECK(p.b.link->peer().name() == "/job:worker/task:1");
    const std::vector<int64_t> sizes = {0, 1, 1000, 4096, 4097, 65'536, 500'000};
    for (int64_t n : sizes) CHECK(p.a.send(5, 6, Push{1, 2, 3, n, 5, 6, 7, ramp(n)}) == Errc::ok);
    CHECK(p.b.send(8, 9, StartStep{1, 2, 3, 4, 5, 6}) == Errc::ok);
    p.a.link->send_caf(std::vector<char>(200'000, 'x'));
    const std::string words = "hello";
    CHECK(p.a.link->send_control(Control::members, std::as_bytes(std::span(words))) == Errc::ok);
    REQUIRE(p.net.run_until(
        [&] {
          return p.b.messages.size() == sizes.size() && p.a.messages.size() == 1 &&
                 p.b.caf.size() == 200'000;
        },
        60s));
    for (const auto& got : p.b.messages) {
      const auto& push = got.message.get_as<Push>(0);
      CHECK(got.target == 5);
      CHECK(got.sender == 6);
      CHECK(same_bits(push.gradient.values, ramp(push.step)));
    }
    CHECK(p.b.controls ==
          std::vector<std::pair<Control, std::string>>{{Control::members, "hello"}});
    CHECK(p.a.messages[0].message.get_as<StartStep>(0).first_step == 6);
    CHECK(!p.a.closed_);
  }
}

TEST_CASE("nothing but the greeting is kept for a stranger, and its frames reach nobody") {
  StrangerPair p;
  p.s.greet(hello_of("worker", 1));
  // A valid frame, but not the confirmation.
  p.s.say(small_frame(encode(StartStep{1, 2, 3, 4, 5, 6})));
  REQUIRE(p.net.run_until([&] { return p.b.closed_; }, 1s));
  CHECK(p.b.reason.find("before the greeting was confirmed") != p.b.reason.npos);
  CHECK(!p.b.up);
  CHECK(p.b.messages.empty());
}

TEST_CASE("somebody who speaks HTTP is told what this port is, and hung up on") {
  StrangerPair p;
  p.s.say("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  REQUIRE(p.net.run_until([&] { return !p.s.closed.empty(); }, 1s));
  CHECK(p.b.refusal == Refusal::not_ours);
  CHECK(p.b.judged == 0);
  CHECK(p.s.heard.find("link of a Troupe cluster") != p.s.heard.npos);
}

TEST_CASE("a silent stranger is closed by the deadline") {
  StrangerPair p;
  p.net.run_for(4900ms);
  CHECK(!p.b.closed_);
  p.net.run_for(300ms);
  CHECK(p.b.closed_);
  CHECK(p.b.reason.find("5 s") != p.b.reason.npos);
  CHECK(!p.s.closed.empty());
}

TEST_CASE("a slow stranger gains no time by sending a byte now and then") {
  StrangerPair p;
  const auto packet =
      encode(Greeting{GreetingKind::hello, Refusal::none, "", hello_of("worker", 1)});
  for (size_t i = 0; i < 60; ++i) {
    p.s.say({reinterpret_cast<const char*>(packet.data()) + i, 1});
    p.net.run_for(100ms);
  }
  CHECK(p.b.closed_);
}

TEST_CASE("a refusal reaches the dialler in words") {
  LinkPair p;
  p.b.answer.kind = GreetingKind::refusal;
  p.b.answer.refusal = Refusal::other_ops;
  p.b.answer.text = "other ops";
  auto [x, y] = p.net.connect(p.left, p.right);
  p.b.open(Link::Role::acceptor, y, hello_of("ps", 0));
  p.a.open(Link::Role::dialler, x, hello_of("worker", 1));
  REQUIRE(p.net.run_until([&] { return p.a.closed_; }, 1s));
  CHECK(p.a.reason == "other ops");
  CHECK(p.a.refusal == Refusal::other_ops);
  CHECK(p.a.link->peer().name() == "/job:ps/task:0");
  CHECK(!p.a.up);
  CHECK(p.b.closed_);
}

TEST_CASE("a node of another protocol version is refused on both sides, naming both versions") {
  StrangerPair p;
  auto packet = encode(Greeting{GreetingKind::hello, Refusal::none, "", hello_of("worker", 1)});
  packet[8] = std::byte{99};
  p.s.say({reinterpret_cast<const char*>(packet.data()), packet.size()});
  REQUIRE(p.net.run_until([&] { return !p.s.closed.empty(); }, 1s));
  CHECK(p.b.refusal == Refusal::other_version);
  const std::string words =
      detail::concat("the node that was dialled speaks protocol version ", kProtocolVersion,
                     ", the one that dialled 99; install the same Troupe on both");
  CHECK(p.s.heard.find(words) != p.s.heard.npos);
  CHECK(p.b.reason == words);

  LinkPair q;
  auto [v, w] = q.net.connect(q.left, q.right);
  q.a.open(Link::Role::dialler, v, hello_of("worker", 1));
  Stranger old(w);
  packet = encode(Greeting{GreetingKind::refusal, Refusal::other_version, "I am version 99",
                           hello_of("ps", 0)});
  packet[8] = std::byte{99};
  old.say({reinterpret_cast<const char*>(packet.data()), packet.size()});
  REQUIRE(q.net.run_until([&] { return q.a.closed_; }, 1s));
  CHECK(q.a.refusal == Refusal::other_version);
  CHECK(q.a.reason ==
        detail::concat(
            "the node that was dialled speaks protocol version 99, the one that dialled ",
            kProtocolVersion, "; install the same Troupe on both. It said: I am version 99"));
}

TEST_CASE("a large tensor takes memory when its first chunk is here, and arrives whole") {
  LinkPair pair;
  pair.connect_both();
  const Tensor large = ramp(5 << 20);  // 20 MiB
  CHECK(pair.a.send(1, 2, Pulled{.values = large}) == Errc::ok);
  REQUIRE(pair.net.run_until([&] { return !pair.b.messages.empty(); }, std::chrono::seconds(60)));
  CHECK(pair.b.allocations == 1);
  const Tensor got = pair.b.messages[0].message.get_as<Pulled>(0).values;
  REQUIRE(got.size() == large.size());
  CHECK(std::memcmp(got.raw(), large.raw(), static_cast<size_t>(large.byte_size())) == 0);
  // A header alone.
  StrangerPair claims;
  claims.s.greet(hello_of("worker", 1));
  claims.s.say(frame(Channel::control, static_cast<uint16_t>(Control::confirm), {}));
  const Encoded claim = encode(Pulled{.values = large});
  const Bytes header(claim.header.begin(), claim.header.end());
  claims.s.say(frame(Channel::bulk, claim.kind, header));
  claims.net.run_for(std::chrono::milliseconds(200));
  CHECK(claims.b.up);
  CHECK(claims.b.allocations == 0);
  CHECK(claims.b.link->arriving_bytes() == 0);
}

TEST_CASE("a large tensor without memory fails, and the link stays up") {
  LinkPair pair;
  pair.connect_both();
  pair.b.habits.deny_memory = true;
  CHECK(pair.a.send(1, 2, Pulled{.values = ramp(5 << 20)}) == Errc::ok);
  REQUIRE(pair.net.run_until([&] { return !pair.b.messages.empty(); }, std::chrono::seconds(60)));
  CHECK(pair.b.messages[0].code == Errc::out_of_memory);
  CHECK(!pair.b.messages[0].message.get_as<Pulled>(0).values.defined());
  CHECK(pair.b.up);
  CHECK(!pair.b.closed_);
}

TEST_CASE("an idle link stays, a frozen peer is found within two seconds") {
  LinkPair p;
  p.connect_both();
  p.net.run_for(60s);
  CHECK(!p.a.closed_);
  CHECK(!p.b.closed_);
  p.net.freeze(p.right);
  const TimePoint frozen = p.net.now();
  REQUIRE(p.net.run_until([&] { return p.a.closed_; }, 10s));
  CHECK(p.net.now() - frozen <= 2s);
  CHECK(p.net.now() - frozen >= 1s);
  CHECK(p.a.reason.find("silent") != p.a.reason.npos);
}

TEST_CASE("each side has its own patience with silence, and heartbeats suit the lesser one") {
  Hello hasty = hello_of("worker", 1), patient = hello_of("ps", 0);
  hasty.silence = 500;
  patient.silence = 10'000;
  LinkPair p;
  int spoken = 0;
  p.net.filter = [&](const sim::SimFrame& f) {
    spoken += f.from == "right" ? 1 : 0;
    return sim::Verdict::pass;
  };
  auto [x, y] = p.net.connect(p.left, p.right);
  p.b.open(Link::Role::acceptor, y, patient);
  p.a.open(Link::Role::dialler, x, hasty);
  REQUIRE(p.both_up());
  spoken = 0;
  p.net.run_for(10s);
  CHECK(spoken >= 95);  // one each 100 ms
  CHECK(!p.a.closed_);
  CHECK(!p.b.closed_);
  SUBCASE("the patient one is cut off") {
    p.net.freeze(p.right);
    p.net.run_for(499ms);
    CHECK(!p.a.closed_);
    p.net.run_for(301ms);
    CHECK(p.a.closed_);
    CHECK(p.a.reason == "silent for 500 ms: frozen, or the network is cut");
  }
  SUBCASE("the hasty one is cut off") {
    p.net.freeze(p.left);
    p.net.run_for(9'900ms);
    CHECK(!p.b.closed_);
    p.net.run_for(400ms);
    CHECK(p.b.closed_);
  }
}

TEST_CASE("the silence of peers is given, or said by the environment, or 1.5 s") {
  const auto with = [](const char* text, std::chrono::milliseconds given = {}) {
    if (text) setenv(kSilenceVariable, text, 1);
    std::string out;
    try {
      out = detail::concat(read_silence(given).count());
    } catch (const Error& e) {
      CHECK(e.code() == Errc::bad_configuration);
      out = e.what();
    }
    unsetenv(kSilenceVariable);
    return out;
  };
  CHECK(with(nullptr) == "1500");
  CHECK(with("2.5") == "2500");
  CHECK(with("0.5") == "500");
  CHECK(with("2.5", 700ms) == "700");
  CHECK(with("2s").find("TROUPE_SILENCE wants 0.5 to 3600 s, got \"2s\"") != std::string::npos);
  for (const char* bad : {"", "0", "0.4", "3601", "nan", "-1", "1e99"}) {
    CAPTURE(bad);
    CHECK(with(bad).find("TROUPE_SILENCE wants") != std::string::npos);
  }
  CHECK(with(nullptr, 100ms).find("got 0.1") != std::string::npos);
}

TEST_CASE("an exception at the data of a link ends the link alone") {
  LinkPair p;
  p.connect_both();
  p.b.habits.throws = true;
  CHECK(p.a.send(1, 1, StartStep{}) == Errc::ok);
  p.net.run_for(100ms);
  CHECK(p.b.closed_);
  CHECK(p.b.reason == "an exception here, at its data: a bug");
  CHECK(p.b.messages.empty());
  CHECK(p.a.closed_);
}

TEST_CASE("who was frozen itself does not blame the peer") {
  // Only b is frozen, and a's heartbeats wait in its socket. The silence that a observes is not
  // under test.
  LinkPair p;
  p.connect_both();
  p.a.timer.reset();
  p.b.link->tick(p.net.now());  // b has seen all bytes so far
  p.a.send(1, 1, StartStep{});
  p.net.freeze(p.right);
  p.net.run_for(20s);
  p.net.thaw(p.right);
  p.b.link->tick(p.net.now());  // before b has read the waiting bytes
  CHECK(!p.b.closed_);
  p.net.run_for(1s);
  CHECK(!p.b.closed_);
  CHECK(p.b.messages.size() == 1);
  p.net.run_for(2s);  // now a is really silent
  CHECK(p.b.closed_);
}

TEST_CASE("a killed peer and a closed link are known at once") {
  LinkPair p;
  p.connect_both();
  p.net.kill(p.right);
  p.net.run_for(1ms);
  CHECK(p.a.closed_);
  CHECK(p.a.send(1, 1, StartStep{}) == Errc::peer_lost);

  LinkPair q;
  q.connect_both();
  q.a.link->close("enough");
  q.net.run_for(1ms);
  CHECK(q.a.closed_);
  CHECK(q.b.closed_);
  CHECK(q.a.reason == "enough");
}

TEST_CASE("a damaged frame ends the link and changes nothing") {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    LinkPair p(seed);
    p.connect_both();
    int seen = 0;
    p.net.filter = [&](const sim::SimFrame& f) {
      if (f.from == "left" && f.channel != Channel::control && ++seen == 2)
        f.bytes[p.net.draw() % f.bytes.size()] ^= static_cast<std::byte>(1u << (p.net.draw() % 8));
      return sim::Verdict::pass;
    };
    const Tensor t = ramp(seed % 2 ? 100 : 100'000);
    for (int i = 0; i < 3; ++i) p.a.send(1, 1, Push{1, 2, 3, i, 5, 6, 7, t});
    p.net.run_for(3s);
    CHECK(p.b.closed_);
    for (const auto& got : p.b.messages)
      CHECK(same_bits(got.message.get_as<Push>(0).gradient.values, t));
    CHECK(p.b.messages.size() <= 1);
  }
}

TEST_CASE("garbage after the greeting never gets through") {
  std::mt19937_64 rng(9);
  for (int round = 0; round < 300; ++round) {
    StrangerPair p(static_cast<uint64_t>(round));
    const auto packet =
        encode(Greeting{GreetingKind::hello, Refusal::none, "", hello_of("worker", 1)});
    std::string bytes(reinterpret_cast<const char*>(packet.data()), packet.size());
    if (round % 2) bytes[rng() % bytes.size()] ^= static_cast<char>(1u << (rng() % 8));
    for (int i = 0; i < 500; ++i) bytes.push_back(static_cast<char>(rng()));
    p.s.say(bytes);
    p.net.run_for(100ms);  // long before the deadline of a greeting
    CHECK(p.b.closed_);
    CHECK(!p.b.up);
    CHECK(p.b.messages.empty());
  }
}

}  // namespace troupe

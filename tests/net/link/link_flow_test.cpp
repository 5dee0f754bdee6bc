// Links over an in-memory transport under virtual time: the order of messages and the limits of
// each queue.

#include "tests/support/link_pair.hpp"
#include "tests/support/raw_frames.hpp"

namespace troupe {

using namespace std::chrono_literals;

TEST_CASE("small messages that more follow are written together, at the latest at 64 KiB") {
  LinkPair p;
  p.connect_both();
  const int64_t before = p.net.writes();
  for (int64_t i = 0; i < 10; ++i)
    CHECK(p.a.send(1, 2, Pull{.step = i}, /*more=*/true) == Errc::ok);
  CHECK(p.net.writes() == before);
  p.a.link->flush();
  CHECK(p.net.writes() == before + 1);
  REQUIRE(p.net.run_until([&] { return p.b.messages.size() == 10; }, 1s));
  for (size_t i = 0; i < 10; ++i)
    CHECK(p.b.messages[i].message.get_as<Pull>(0).step == static_cast<int64_t>(i));
  const int64_t settled = p.net.writes();
  p.a.link->flush();
  CHECK(p.net.writes() == settled);  // there is nothing to write
  for (int i = 0; i < 5; ++i)
    CHECK(p.a.send(1, 2, Push{.gradient = ramp(4000)}, /*more=*/true) == Errc::ok);
  CHECK(p.net.writes() == settled + 1);
  CHECK(p.a.send(1, 2, Push{.gradient = ramp(40'000)}, /*more=*/true) == Errc::ok);
  CHECK(p.net.writes() > settled + 1);  // large ones are written at once
}

TEST_CASE("a small message overtakes the chunks of a large one") {
  LinkPair p;
  p.net.faults.window = 300'000;
  p.connect_both();
  CHECK(p.a.send(1, 1, Deliver{{}, false, Errc::ok, "", ramp(2'000'000)}) == Errc::ok);  // 8 MB
  CHECK(p.a.send(2, 1, StartStep{}) == Errc::ok);
  REQUIRE(p.net.run_until([&] { return p.b.messages.size() == 2; }, 60s));
  CHECK(p.b.messages[0].target == 2);
  CHECK(p.b.messages[1].target == 1);
  CHECK(same_bits(p.b.messages[1].message.get_as<Deliver>(0).value, ramp(2'000'000)));
}

TEST_CASE("a tensor larger than the window arrives") {
  LinkPair p;
  p.connect_both();
  const int64_t n = (kBulkWindow * 2 + 12345) / 4;
  CHECK(p.a.send(1, 1, Deliver{{}, false, Errc::ok, "", ramp(n)}) == Errc::ok);
  REQUIRE(p.net.run_until([&] { return p.b.messages.size() == 1; }, 60s));
  CHECK(same_bits(p.b.messages[0].message.get_as<Deliver>(0).value, ramp(n)));
  CHECK(p.a.link->stats().queued_bytes == 0);
}

TEST_CASE("no more bulk bytes are under way than the receiver granted") {
  LinkPair p;
  p.net.faults.window = size_t{1} << 30;  // the stream itself would accept all bytes
  p.connect_both();
  p.net.freeze(p.right);
  p.a.send(1, 1, Deliver{{}, false, Errc::ok, "", ramp(kBulkWindow)});  // four windows
  p.net.run_for(500ms);
  const auto bulk = static_cast<size_t>(Channel::bulk);
  CHECK(p.a.link->stats().bytes_out[bulk] <= kBulkWindow + (64 << 10));
  CHECK(p.a.link->stats().bytes_out[bulk] >= kBulkWindow / 2);
  p.net.thaw(p.right);
  REQUIRE(p.net.run_until([&] { return p.b.messages.size() == 1; }, 10s));
}

TEST_CASE("the queue of a peer that takes nothing is bounded, and the sender is told") {
  LinkPair p;
  p.connect_both();
  p.net.cut(p.left, p.right);
  const Tensor t = Tensor::empty(DType::u8, Shape{kBulkQueueMax / 4});
  int sent = 0;
  Errc code = Errc::ok;
  while (sent < 10 && (code = p.a.send(1, 1, Deliver{{}, false, Errc::ok, "", t})) == Errc::ok)
    ++sent;
  CHECK(code == Errc::out_of_memory);
  CHECK(sent >= 4);
  CHECK(sent <= 5);
}

TEST_CASE("CAF bytes wait for the reader to take them, and past the budget the link ends") {
  LinkPair p;
  p.connect_both();
  p.b.habits.eat = false;
  for (int i = 0; i < 3; ++i) p.a.link->send_caf(std::vector<char>(3 << 20, 'x'));
  p.net.run_for(2s);
  CHECK(p.b.caf.size() <= static_cast<size_t>(kCafWindow));
  CHECK(p.b.caf.size() > static_cast<size_t>(kCafWindow) / 2);
  p.b.habits.eat = true;
  p.b.link->eaten(p.b.caf.size());
  p.net.run_for(2s);
  CHECK(p.b.caf.size() == 9u << 20);
  p.b.habits.eat = false;
  for (int i = 0; i < 20; ++i) p.a.link->send_caf(std::vector<char>(10 << 20, 'x'));
  p.net.run_for(100ms);
  CHECK(p.a.closed_);
  CHECK(p.a.reason.find("control messages wait") != p.a.reason.npos);
}

TEST_CASE("who sends CAF bytes past what it was granted loses its link") {
  for (const bool eat : {true, false}) {
    CAPTURE(eat);
    LinkPair p;
    p.net.faults.window = 16 << 20;
    auto [x, y] = p.net.connect(p.left, p.right);
    p.b.habits.eat = eat;
    p.b.open(Link::Role::acceptor, y, hello_of("ps", 0));
    Stranger s(x);
    s.greet(hello_of("worker", 1));
    s.say(frame(Channel::control, static_cast<uint16_t>(Control::confirm), {}));
    const Bytes piece = frame(Channel::caf, 0, Bytes(64 << 10));
    constexpr size_t kPieces = kCafWindow / (64 << 10);
    for (size_t i = 0; i < kPieces; ++i) s.say(piece);
    p.net.run_for(100ms);
    CHECK(p.b.caf.size() == kCafWindow);
    CHECK(!p.b.closed_);
    s.say(piece);
    p.net.run_for(100ms);
    CHECK(p.b.closed_ == !eat);
    CHECK(p.b.link->rejected() == !eat);
    CHECK((p.b.reason.find("than it was granted") != p.b.reason.npos) == !eat);
  }
}

TEST_CASE("a small frame that claims a large tensor gets no memory for it") {
  StrangerPair p;
  p.s.greet(hello_of("worker", 1));
  p.s.say(frame(Channel::control, static_cast<uint16_t>(Control::confirm), {}));
  Encoded message = encode(Deliver{});
  message.header.pop_back();  // an undefined tensor consists of its flags only
  Writer claim(message.header);
  claim.number(uint8_t{1});
  claim.number(static_cast<uint8_t>(DType::u8));
  claim.number(uint8_t{1});  // ndim
  claim.number(kTensorBytesMax);
  p.s.say(small_frame(message));
  REQUIRE(p.net.run_until([&] { return p.b.closed_; }, 1s));
  CHECK(p.b.reason.find("other elements than it says") != p.b.reason.npos);
  CHECK(p.b.allocations == 0);
}

TEST_CASE("without memory for a tensor its message says so and the link lives") {
  LinkPair p;
  p.connect_both();
  p.b.habits.deny_memory = true;
  p.a.send(1, 2, Deliver{.key = {.edge = 4}, .value = ramp(100'000)});
  p.a.send(1, 2, Push{.ticket = 77, .gradient = ramp(10)});
  p.net.run_for(1s);
  REQUIRE(p.b.messages.size() == 2);
  for (const auto& got : p.b.messages) {
    CHECK(got.code == Errc::out_of_memory);
    CHECK(got.text.find("the pool is empty") != got.text.npos);
  }
  p.b.habits.deny_memory = false;
  p.a.send(1, 2, Deliver{.value = ramp(100'000)});
  p.net.run_for(1s);
  REQUIRE(p.b.messages.size() == 3);
  CHECK(p.b.messages[2].code == Errc::ok);
}

TEST_CASE("dropped, doubled and reordered frames leave the others whole") {
  LinkPair p(3);
  p.connect_both();
  p.net.faults.drop = 0.2;
  p.net.faults.duplicate = 0.2;
  p.net.faults.reorder = 0.2;
  for (int i = 0; i < 300; ++i) p.a.send(1, 1, StartStep{0, 0, i, 0, 0, 0});
  p.net.run_for(1s);
  std::map<int64_t, int> times;
  bool in_order = true;
  int64_t last = -1;
  for (const auto& got : p.b.messages) {
    const int64_t run = got.message.get_as<StartStep>(0).run;
    in_order = in_order && run >= last;
    last = run;
    ++times[run];
  }
  CHECK(times.size() < 300);
  CHECK(times.size() > 150);
  CHECK(std::any_of(times.begin(), times.end(), [](const auto& t) { return t.second == 2; }));
  CHECK(!in_order);
  CHECK(!p.b.closed_);
}

TEST_CASE("equal seeds give equal histories") {
  const auto history = [](uint64_t seed) {
    LinkPair p(seed);
    p.net.faults.drop = 0.1;
    p.net.faults.piece_max = 100;
    p.connect();
    p.both_up();
    for (int i = 0; i < 50; ++i) p.a.send(1, 1, StartStep{0, 0, i, 0, 0, 0});
    p.net.run_for(1s);
    return p.net.trace();
  };
  CHECK(history(5) == history(5));
  CHECK(history(5) != history(6));
}

}  // namespace troupe

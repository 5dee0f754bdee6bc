// Links over an in-memory transport under virtual time.
#include "net/link.hpp"

#include <doctest/doctest.h>

#include <numeric>

#include "net/crc32c.hpp"
#include "tests/support/sim_net.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;
using sim::ns;

Hello hello_of(const std::string& job, int task) {
  Hello h;
  h.cluster = "test";
  h.job = job;
  h.task = task;
  h.incarnation = 1;
  h.node.process = static_cast<uint32_t>(task + 1);
  h.address = "127.0.0.1:1";
  return h;
}

// One end of a link, and what it has heard.
struct End final : LinkHost {
  struct Got {
    uint64_t target, sender;
    PlaneMessage message;
  };
  sim::SimHost& host;
  std::shared_ptr<Link> link;
  Greeting answer;
  TimerPtr timer;
  bool up = false, closed_ = false, deny_memory = false, eat = true;
  std::string reason;
  Refusal refusal = Refusal::none;
  std::vector<Got> messages;
  std::string caf;
  std::vector<std::pair<Control, std::string>> controls;
  size_t judged = 0;

  explicit End(sim::SimHost& h) : host(h) {}
  ~End() override {
    if (link) link->close_now("the test is over");
  }
  void open(Link::Role role, ConnectionPtr connection, const Hello& hello) {
    answer.hello = hello;
    link = std::make_shared<Link>(
        role, std::move(connection), Greeting{GreetingKind::hello, Refusal::none, "", hello}, *this,
        [this](std::function<void()> fn) { host.post(std::move(fn)); }, host.now());
    link->start();
    tick();
  }
  void tick() {
    timer = host.after(kTick, [this] { tick(); });
    link->tick(host.now());
  }
  Greeting judge(Link&, const Greeting&) override {
    ++judged;
    return answer;
  }
  void established(Link&) override { up = true; }
  void control(Link&, Control type, std::span<const std::byte> payload) override {
    controls.emplace_back(
        type, std::string(reinterpret_cast<const char*>(payload.data()), payload.size()));
  }
  void caf_bytes(Link& l, std::span<const std::byte> bytes) override {
    caf.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (eat) l.eaten(bytes.size());
  }
  void message(Link&, uint64_t target, uint64_t sender, PlaneMessage message) override {
    messages.push_back({target, sender, std::move(message)});
  }
  Tensor allocate(DType dtype, const Shape& shape) override {
    if (deny_memory) throw Error(Errc::out_of_memory, "the pool is empty");
    return Tensor::empty(dtype, shape);
  }
  void closed(Link&, const std::string& why, Refusal r) override {
    CHECK(!closed_);
    closed_ = true;
    reason = why;
    refusal = r;
    timer.reset();
  }
};

struct Pair {
  sim::SimNet net;
  sim::SimHost &left, &right;
  End a, b;
  explicit Pair(uint64_t seed = 1)
      : net(seed), left(net.add("left")), right(net.add("right")), a(left), b(right) {}
  void connect() {
    auto [x, y] = net.connect(left, right);
    b.open(Link::Role::acceptor, y, hello_of("ps", 0));
    a.open(Link::Role::dialler, x, hello_of("worker", 1));
  }
  bool both_up() {
    return net.run_until([&] { return a.up && b.up; }, 1s);
  }
};

Tensor ramp(int64_t n) {
  Tensor t = Tensor::empty(DType::f32, Shape{n});
  float* p = t.mutable_data<float>();
  for (int64_t i = 0; i < n; ++i) p[i] = static_cast<float>(i);
  return t;
}

// Bytes to an acceptor, and what it answered before it hung up.
struct Stranger {
  std::string heard, closed;
  char buffer[256];
  ConnectionPtr connection;
  explicit Stranger(ConnectionPtr c) : connection(std::move(c)) {
    connection->start(
        {[this] {
           return ConnectionHandlers::Room{std::as_writable_bytes(std::span(buffer)), {}};
         },
         [this](size_t n) { heard.append(buffer, n); }, [] {},
         [this](const std::string& r) { closed = r; }});
  }
  void say(std::string_view text) {
    const std::span<const std::byte> part(reinterpret_cast<const std::byte*>(text.data()),
                                          text.size());
    connection->write(std::span(&part, 1));
  }
};

}  // namespace

TEST_CASE("two links greet, and messages of all sizes arrive whole, however the bytes are split") {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    Pair p(seed);
    p.net.faults.piece_max = seed % 2 ? 700 : 0;
    p.net.faults.window = seed % 3 ? 100'000 : 1 << 20;
    p.connect();
    REQUIRE(p.both_up());
    CHECK(p.a.link->peer().name() == "/job:ps/task:0");
    CHECK(p.b.link->peer().name() == "/job:worker/task:1");
    const std::vector<int64_t> sizes = {0, 1, 1000, 4096, 4097, 65'536, 500'000};
    for (int64_t n : sizes)
      CHECK(p.a.link->send(5, 6, Push{1, 2, 3, n, 5, 6, 7, ramp(n)}) == Errc::ok);
    CHECK(p.b.link->send(8, 9, StartStep{1, 2, 3, 4, 5, 6, 7}) == Errc::ok);
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
      const auto& push = std::get<Push>(got.message);
      CHECK(got.target == 5);
      CHECK(got.sender == 6);
      CHECK(same_bits(push.gradient, ramp(push.step)));
    }
    CHECK(p.b.controls ==
          std::vector<std::pair<Control, std::string>>{{Control::members, "hello"}});
    CHECK(std::get<StartStep>(p.a.messages[0].message).deadline_ms == 6);
    CHECK(!p.a.closed_);
  }
}

TEST_CASE("nothing but the greeting is kept for a stranger, and its frames reach nobody") {
  Pair p;
  auto [x, y] = p.net.connect(p.left, p.right);
  p.b.open(Link::Role::acceptor, y, hello_of("ps", 0));
  Stranger s(x);
  const auto packet =
      encode(Greeting{GreetingKind::hello, Refusal::none, "", hello_of("worker", 1)});
  s.say({reinterpret_cast<const char*>(packet.data()), packet.size()});
  // A right frame, but not the confirmation.
  std::vector<std::byte> frame;
  Writer out(frame);
  const Encoded start = encode(StartStep{1, 2, 3, 4, 5, 6, 7});
  std::vector<std::byte> payload;
  Writer(payload).number(static_cast<uint32_t>(start.header.size()));
  Writer(payload).bytes(start.header.data(), start.header.size());
  out.number(static_cast<uint8_t>(Channel::small));
  out.number(uint8_t{0});
  out.number(start.kind);
  out.number(static_cast<uint32_t>(payload.size()));
  out.number(uint64_t{1});
  out.number(uint64_t{2});
  out.number(crc32c(payload));
  out.number(crc32c(frame));
  out.bytes(payload.data(), payload.size());
  s.say({reinterpret_cast<const char*>(frame.data()), frame.size()});
  REQUIRE(p.net.run_until([&] { return p.b.closed_; }, 1s));
  CHECK(p.b.reason.find("before the greeting was confirmed") != p.b.reason.npos);
  CHECK(!p.b.up);
  CHECK(p.b.messages.empty());
}

TEST_CASE("somebody who speaks HTTP is told what this port is, and hung up on") {
  Pair p;
  auto [x, y] = p.net.connect(p.left, p.right);
  p.b.open(Link::Role::acceptor, y, hello_of("ps", 0));
  Stranger s(x);
  s.say("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  REQUIRE(p.net.run_until([&] { return !s.closed.empty(); }, 1s));
  CHECK(p.b.refusal == Refusal::not_ours);
  CHECK(p.b.judged == 0);
  CHECK(s.heard.find("link of a Troupe cluster") != s.heard.npos);
}

TEST_CASE("a silent stranger is closed by the deadline") {
  Pair p;
  auto [x, y] = p.net.connect(p.left, p.right);
  p.b.open(Link::Role::acceptor, y, hello_of("ps", 0));
  Stranger s(x);
  p.net.run_for(4900ms);
  CHECK(!p.b.closed_);
  p.net.run_for(300ms);
  CHECK(p.b.closed_);
  CHECK(p.b.reason.find("5 s") != p.b.reason.npos);
  CHECK(!s.closed.empty());
}

TEST_CASE("a slow stranger gains no time by sending a byte now and then") {
  Pair p;
  auto [x, y] = p.net.connect(p.left, p.right);
  p.b.open(Link::Role::acceptor, y, hello_of("ps", 0));
  Stranger s(x);
  const auto packet =
      encode(Greeting{GreetingKind::hello, Refusal::none, "", hello_of("worker", 1)});
  for (size_t i = 0; i < 60; ++i) {
    s.say({reinterpret_cast<const char*>(packet.data()) + i, 1});
    p.net.run_for(100ms);
  }
  CHECK(p.b.closed_);
}

TEST_CASE("a refusal reaches the dialler in words") {
  Pair p;
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

TEST_CASE("a node of another protocol version is refused on both sides, in words") {
  Pair p;
  auto [x, y] = p.net.connect(p.left, p.right);
  p.b.open(Link::Role::acceptor, y, hello_of("ps", 0));
  Stranger s(x);
  auto packet = encode(Greeting{GreetingKind::hello, Refusal::none, "", hello_of("worker", 1)});
  packet[8] = std::byte{99};
  s.say({reinterpret_cast<const char*>(packet.data()), packet.size()});
  REQUIRE(p.net.run_until([&] { return !s.closed.empty(); }, 1s));
  CHECK(p.b.refusal == Refusal::other_version);
  CHECK(s.heard.find(detail::concat("protocol version ", kProtocolVersion)) != s.heard.npos);

  Pair q;
  auto [v, w] = q.net.connect(q.left, q.right);
  q.a.open(Link::Role::dialler, v, hello_of("worker", 1));
  Stranger old(w);
  packet = encode(Greeting{GreetingKind::refusal, Refusal::other_version, "I am version 99",
                           hello_of("ps", 0)});
  packet[8] = std::byte{99};
  old.say({reinterpret_cast<const char*>(packet.data()), packet.size()});
  REQUIRE(q.net.run_until([&] { return q.a.closed_; }, 1s));
  CHECK(q.a.refusal == Refusal::other_version);
  CHECK(q.a.reason == "I am version 99");
}

TEST_CASE("small messages that more follow are written together, at the latest at 64 KiB") {
  Pair p;
  p.connect();
  REQUIRE(p.both_up());
  const int64_t before = p.net.writes();
  for (int64_t i = 0; i < 10; ++i)
    CHECK(p.a.link->send(1, 2, Pull{.step = i}, /*more=*/true) == Errc::ok);
  CHECK(p.net.writes() == before);
  p.a.link->flush();
  CHECK(p.net.writes() == before + 1);
  REQUIRE(p.net.run_until([&] { return p.b.messages.size() == 10; }, 1s));
  for (size_t i = 0; i < 10; ++i)
    CHECK(std::get<Pull>(p.b.messages[i].message).step == static_cast<int64_t>(i));
  const int64_t settled = p.net.writes();
  p.a.link->flush();
  CHECK(p.net.writes() == settled);  // there is nothing to write
  for (int i = 0; i < 5; ++i)
    CHECK(p.a.link->send(1, 2, Push{.gradient = ramp(4000)}, /*more=*/true) == Errc::ok);
  CHECK(p.net.writes() == settled + 1);
  CHECK(p.a.link->send(1, 2, Push{.gradient = ramp(40'000)}, /*more=*/true) == Errc::ok);
  CHECK(p.net.writes() > settled + 1);  // large ones wait for nobody
}

TEST_CASE("a small message overtakes the chunks of a large one") {
  Pair p;
  p.net.faults.window = 300'000;
  p.connect();
  REQUIRE(p.both_up());
  CHECK(p.a.link->send(1, 1, Deliver{{}, false, Errc::ok, "", ramp(2'000'000)}) ==
        Errc::ok);  // 8 MB
  CHECK(p.a.link->send(2, 1, StartStep{}) == Errc::ok);
  REQUIRE(p.net.run_until([&] { return p.b.messages.size() == 2; }, 60s));
  CHECK(p.b.messages[0].target == 2);
  CHECK(p.b.messages[1].target == 1);
  CHECK(same_bits(std::get<Deliver>(p.b.messages[1].message).value, ramp(2'000'000)));
}

TEST_CASE("a tensor larger than the window arrives") {
  Pair p;
  p.connect();
  REQUIRE(p.both_up());
  const int64_t n = (kBulkWindow * 2 + 12345) / 4;
  CHECK(p.a.link->send(1, 1, Deliver{{}, false, Errc::ok, "", ramp(n)}) == Errc::ok);
  REQUIRE(p.net.run_until([&] { return p.b.messages.size() == 1; }, 60s));
  CHECK(same_bits(std::get<Deliver>(p.b.messages[0].message).value, ramp(n)));
  CHECK(p.a.link->stats().queued_bytes == 0);
}

TEST_CASE("no more bulk bytes are under way than the receiver granted") {
  Pair p;
  p.net.faults.window = size_t{1} << 30;  // the stream itself would take all
  p.connect();
  REQUIRE(p.both_up());
  p.net.freeze(p.right);
  p.a.link->send(1, 1, Deliver{{}, false, Errc::ok, "", ramp(kBulkWindow)});  // four windows
  p.net.run_for(500ms);
  const auto bulk = static_cast<size_t>(Channel::bulk);
  CHECK(p.a.link->stats().bytes_out[bulk] <= kBulkWindow + (64 << 10));
  CHECK(p.a.link->stats().bytes_out[bulk] >= kBulkWindow / 2);
  p.net.thaw(p.right);
  REQUIRE(p.net.run_until([&] { return p.b.messages.size() == 1; }, 10s));
}

TEST_CASE("the queue of a peer that takes nothing is bounded, and the sender is told") {
  Pair p;
  p.connect();
  REQUIRE(p.both_up());
  p.net.cut(p.left, p.right);
  const Tensor t = Tensor::empty(DType::u8, Shape{kBulkQueueMax / 4});
  int sent = 0;
  Errc code = Errc::ok;
  while (sent < 10 &&
         (code = p.a.link->send(1, 1, Deliver{{}, false, Errc::ok, "", t})) == Errc::ok)
    ++sent;
  CHECK(code == Errc::out_of_memory);
  CHECK(sent >= 4);
  CHECK(sent <= 5);
}

TEST_CASE("CAF bytes wait for the reader to take them, and past the budget the link ends") {
  Pair p;
  p.connect();
  REQUIRE(p.both_up());
  p.b.eat = false;
  for (int i = 0; i < 3; ++i) p.a.link->send_caf(std::vector<char>(3 << 20, 'x'));
  p.net.run_for(2s);
  CHECK(p.b.caf.size() <= static_cast<size_t>(kCafWindow));
  CHECK(p.b.caf.size() > static_cast<size_t>(kCafWindow) / 2);
  p.b.eat = true;
  p.b.link->eaten(p.b.caf.size());
  p.net.run_for(2s);
  CHECK(p.b.caf.size() == 9u << 20);
  p.b.eat = false;
  for (int i = 0; i < 20; ++i) p.a.link->send_caf(std::vector<char>(10 << 20, 'x'));
  p.net.run_for(100ms);
  CHECK(p.a.closed_);
  CHECK(p.a.reason.find("control messages wait") != p.a.reason.npos);
}

TEST_CASE("an idle link stays, a frozen peer is found within two seconds") {
  Pair p;
  p.connect();
  REQUIRE(p.both_up());
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

TEST_CASE("who was frozen itself does not blame the peer") {
  // Only b is frozen, and a's heartbeats wait in its socket; a's own clock of silence is not under
  // test.
  Pair p;
  p.connect();
  REQUIRE(p.both_up());
  p.a.timer.reset();
  p.b.link->tick(p.net.now());  // has seen what came so far
  p.a.link->send(1, 1, StartStep{});
  p.net.freeze(p.right);
  p.net.run_for(20s);
  p.net.thaw(p.right);
  p.b.link->tick(p.net.now());  // before it has read what waits for it
  CHECK(!p.b.closed_);
  p.net.run_for(1s);
  CHECK(!p.b.closed_);
  CHECK(p.b.messages.size() == 1);
  p.net.run_for(2s);  // now a is silent indeed
  CHECK(p.b.closed_);
}

TEST_CASE("a killed peer and a closed link are known at once") {
  Pair p;
  p.connect();
  REQUIRE(p.both_up());
  p.net.kill(p.right);
  p.net.run_for(1ms);
  CHECK(p.a.closed_);
  CHECK(p.a.link->send(1, 1, StartStep{}) == Errc::peer_lost);

  Pair q;
  q.connect();
  REQUIRE(q.both_up());
  q.a.link->close("enough");
  q.net.run_for(1ms);
  CHECK(q.a.closed_);
  CHECK(q.b.closed_);
  CHECK(q.a.reason == "enough");
}

TEST_CASE("a damaged frame ends the link and changes nothing") {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Pair p(seed);
    p.connect();
    REQUIRE(p.both_up());
    int seen = 0;
    p.net.filter = [&](const sim::SimFrame& f) {
      if (f.from == "left" && f.channel != Channel::control && ++seen == 2)
        f.bytes[p.net.draw() % f.bytes.size()] ^= static_cast<std::byte>(1u << (p.net.draw() % 8));
      return sim::Verdict::pass;
    };
    const Tensor t = ramp(seed % 2 ? 100 : 100'000);
    for (int i = 0; i < 3; ++i) p.a.link->send(1, 1, Push{1, 2, 3, i, 5, 6, 7, t});
    p.net.run_for(3s);
    CHECK(p.b.closed_);
    for (const auto& got : p.b.messages) CHECK(same_bits(std::get<Push>(got.message).gradient, t));
    CHECK(p.b.messages.size() <= 1);
  }
}

TEST_CASE("without memory for a tensor the message fails and the link lives") {
  Pair p;
  p.connect();
  REQUIRE(p.both_up());
  p.b.deny_memory = true;
  Key key;
  key.edge = 4;
  p.a.link->send(1, 2, Deliver{key, false, Errc::ok, "", ramp(100'000)});
  p.a.link->send(1, 2, Push{9, 2, 3, 4, 5, 6, 77, ramp(10)});
  p.net.run_for(1s);
  REQUIRE(p.b.messages.size() == 1);
  const auto& failed = std::get<Deliver>(p.b.messages[0].message);
  CHECK(failed.error == Errc::out_of_memory);
  CHECK(failed.key.edge == 4);
  CHECK(failed.text.find("the pool is empty") != failed.text.npos);
  REQUIRE(p.a.messages.size() == 1);
  CHECK(p.a.messages[0].target == 2);
  CHECK(std::get<Acknowledged>(p.a.messages[0].message).ticket == 77);
  CHECK(std::get<Acknowledged>(p.a.messages[0].message).code == Errc::out_of_memory);
  p.b.deny_memory = false;
  p.a.link->send(1, 2, Deliver{key, false, Errc::ok, "", ramp(100'000)});
  p.net.run_for(1s);
  CHECK(p.b.messages.size() == 2);
}

TEST_CASE("dropped, doubled and reordered frames leave the others whole") {
  Pair p(3);
  p.connect();
  REQUIRE(p.both_up());
  p.net.faults.drop = 0.2;
  p.net.faults.duplicate = 0.2;
  p.net.faults.reorder = 0.2;
  for (int i = 0; i < 300; ++i) p.a.link->send(1, 1, StartStep{0, 0, i, 0, 0, 0, 0});
  p.net.run_for(1s);
  std::map<int64_t, int> times;
  bool in_order = true;
  int64_t last = -1;
  for (const auto& got : p.b.messages) {
    const int64_t run = std::get<StartStep>(got.message).run;
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
    Pair p(seed);
    p.net.faults.drop = 0.1;
    p.net.faults.piece_max = 100;
    p.connect();
    p.both_up();
    for (int i = 0; i < 50; ++i) p.a.link->send(1, 1, StartStep{0, 0, i, 0, 0, 0, 0});
    p.net.run_for(1s);
    return p.net.trace();
  };
  CHECK(history(5) == history(5));
  CHECK(history(5) != history(6));
}

TEST_CASE("garbage after the greeting never gets through") {
  std::mt19937_64 rng(9);
  for (int round = 0; round < 300; ++round) {
    Pair p(static_cast<uint64_t>(round));
    auto [x, y] = p.net.connect(p.left, p.right);
    p.b.open(Link::Role::acceptor, y, hello_of("ps", 0));
    Stranger s(x);
    const auto packet =
        encode(Greeting{GreetingKind::hello, Refusal::none, "", hello_of("worker", 1)});
    std::string bytes(reinterpret_cast<const char*>(packet.data()), packet.size());
    if (round % 2) bytes[rng() % bytes.size()] ^= static_cast<char>(1u << (rng() % 8));
    for (int i = 0; i < 500; ++i) bytes.push_back(static_cast<char>(rng()));
    s.say(bytes);
    p.net.run_for(6s);
    CHECK(p.b.closed_);
    CHECK(!p.b.up);
    CHECK(p.b.messages.empty());
  }
}

}  // namespace troupe

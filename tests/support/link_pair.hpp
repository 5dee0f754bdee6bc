// Fixtures of the tests of links: two ends over an in-memory transport under virtual time, and a
// stranger that sends raw bytes.
#pragma once

#include <doctest/doctest.h>

#include <stdexcept>

#include "net/link/tls.hpp"
#include "tests/support/data_messages.hpp"
#include "chaos/sim_net.hpp"

namespace troupe {

inline Hello hello_of(const std::string& job, int task) {
  Hello h{.cluster = "test", .job = job, .task = task, .incarnation = 1};
  h.node.process = static_cast<uint32_t>(task + 1);
  h.address = "127.0.0.1:1";
  return h;
}

// One end of a link; records everything that it receives.
struct LinkEnd final : LinkHost {
  struct Got {
    uint64_t target, sender;
    caf::message message;
    Errc code;
    std::string text;
  };
  struct Habits {
    bool deny_memory = false, eat = true, throws = false;
    std::shared_ptr<const TlsIdentity> tls = {};  // null: plain
    SegmentPool* segments = nullptr;              // null: lends nothing
  };
  sim::SimHost& host;
  std::shared_ptr<Link> link;
  std::shared_ptr<const Secret> secret;  // null: none
  Greeting answer;
  TimerPtr timer;
  Habits habits;
  bool up = false, closed_ = false;
  std::string reason;
  Refusal refusal = Refusal::none;
  std::vector<Got> messages;
  std::string caf;
  std::vector<std::pair<Control, std::string>> controls;
  size_t judged = 0, allocations = 0;

  explicit LinkEnd(sim::SimHost& h) : host(h) {}
  ~LinkEnd() override {
    if (link) link->close_now("the test is over");
  }
  void open(Link::Role role, ConnectionPtr connection, const Hello& hello) {
    answer.hello = hello;
    if (habits.tls)
      connection = encrypt(connection, habits.tls, hello,
                           role == Link::Role::dialler ? connection->peer_address() : "");
    link = std::make_shared<Link>(
        role, std::move(connection), Greeting{GreetingKind::hello, Refusal::none, "", hello}, *this,
        [this](std::function<void()> fn) { host.post(std::move(fn)); }, host.now(), secret);
    link->start();
    tick();
  }
  template <class M>
  Errc send(uint64_t target, uint64_t sender, const M& message, bool more = false) {
    return link->send(target, sender, encode(message), more);
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
    if (habits.eat) l.eaten(bytes.size());
  }
  std::optional<TensorClaim> claim(uint16_t kind, std::span<const std::byte> header,
                                   std::string& why) override {
    return data_kinds()->claim(kind, header, why);
  }
  void message(Link&, Received m) override {
    if (habits.throws) throw std::runtime_error("a bug");
    messages.push_back({m.target, m.sender,
                        data_kinds()->at(m.kind).decode(m.header, std::move(m.payload)), m.code,
                        m.text});
  }
  Tensor allocate(DType dtype, const Shape& shape) override {
    ++allocations;
    if (habits.deny_memory) throw Error(Errc::out_of_memory, "the pool is empty");
    return Tensor::empty(dtype, shape);
  }
  SegmentPool* segments() override { return habits.segments; }
  void closed(Link&, const std::string& why, Refusal r) override {
    CHECK(!closed_);
    closed_ = true;
    reason = why;
    refusal = r;
    timer.reset();
  }
};

struct LinkPair {
  sim::SimNet net;
  sim::SimHost &left, &right;
  LinkEnd a, b;
  explicit LinkPair(uint64_t seed = 1)
      : net(seed), left(net.add("left")), right(net.add("right")), a(left), b(right) {}
  void connect() {
    auto [x, y] = net.connect(left, right);
    b.open(Link::Role::acceptor, y, hello_of("ps", 0));
    a.open(Link::Role::dialler, x, hello_of("worker", 1));
  }
  bool both_up() {
    return net.run_until([&] { return a.up && b.up; }, std::chrono::seconds(1));
  }
  void connect_both() {
    connect();
    REQUIRE(both_up());
  }
};

inline void give_secret(LinkEnd& end, const std::string& key = "the key of both sides") {
  end.secret = std::make_shared<const Secret>(key, end.host.rng());
}

inline Tensor ramp(int64_t n) {
  Tensor t = Tensor::empty(DType::f32, Shape{n});
  float* p = t.mutable_data<float>();
  for (int64_t i = 0; i < n; ++i) p[i] = static_cast<float>(i);
  return t;
}

// Sends bytes to an acceptor and keeps its answer until it hangs up.
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
  void say(std::string_view text) {  // as much as the stream takes
    const std::span<const std::byte> part(reinterpret_cast<const std::byte*>(text.data()),
                                          text.size());
    connection->write(std::span(&part, 1), {});
  }
  void say(std::span<const std::byte> bytes) {
    say({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  void greet(const Hello& hello) {
    say(encode(Greeting{GreetingKind::hello, Refusal::none, "", hello}));
  }
};

// A stranger that has dialled b.
struct StrangerPair : LinkPair {
  Stranger s;
  explicit StrangerPair(uint64_t seed = 1) : LinkPair(seed), s(dial()) {}
  ConnectionPtr dial() {
    auto [x, y] = net.connect(left, right);
    b.open(Link::Role::acceptor, y, hello_of("ps", 0));
    return x;
  }
};

}  // namespace troupe

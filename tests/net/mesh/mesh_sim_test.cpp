// Members of meshes that meet, lose each other and meet again.
#include "net/mesh/mesh.hpp"

#include "graph/base/crc32c.hpp"
#include "net/link/frame.hpp"
#include "tests/support/mesh_world.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

// Recomputes the checksums of a changed frame, so that only the reader of the content can find the
// damage.
void seal(std::vector<std::byte>& bytes) {
  HeaderBytes header;
  std::memcpy(&header, bytes.data(), sizeof header);
  header.payload_crc = crc32c(std::span(bytes).subspan(kFrameHeader));
  header.header_crc = crc_of_header(header);
  std::memcpy(bytes.data(), &header, sizeof header);
}

}  // namespace

TEST_CASE("members meet whoever comes first, and both dials at once make one link") {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    CAPTURE(seed);
    MeshWorld w(seed);
    // Every member has all members as seeds, and all start together.
    const std::vector<std::string> seeds = {"127.0.0.1:1000", "127.0.0.1:1001", "127.0.0.1:1002",
                                            "127.0.0.1:1003"};
    w.add("ps", 0, seeds, 1, seeds[0]);
    w.add("ps", 1, seeds, 1, seeds[1]);
    w.add("worker", 0, seeds, 1, seeds[2]);
    w.add("worker", 1, seeds, 1, seeds[3]);
    const auto all_met = [&] {
      return std::all_of(w.nodes.begin(), w.nodes.end(),
                         [](auto& n) { return n->agents.size() == 3; });
    };
    const TimePoint begin = w.net.now();
    REQUIRE(w.run_until(all_met, 30s));
    CHECK(w.net.now() - begin < 70ms);  // no dial had to be repeated
    w.run_for(30s);
    CHECK(all_met());
    for (auto& n : w.nodes) {
      CHECK(n->history.size() == 3);  // no member went down again
      CHECK(n->refusal.empty());
      CHECK(n->mesh->stats().size() == 3);
    }
    // CAF messages pass both ways.
    for (auto& n : w.nodes)
      for (auto& [name, agent] : n->agents) caf::anon_send(agent, 1);
    CHECK(w.run_until(
        [&] {
          return std::all_of(w.nodes.begin(), w.nodes.end(), [](auto& n) { return n->asked == 3; });
        },
        5s));
  }
}

TEST_CASE("a frozen member goes down within two seconds and comes back when it thaws") {
  MeshWorld w(7);
  SimNode& a = w.add("ps", 0, {}, 1, "127.0.0.1:1000");
  SimNode& b = w.add("worker", 0, {a.address});
  REQUIRE(w.run_until([&] { return a.agents.size() == 1 && b.agents.size() == 1; }, 10s));
  w.run_for(60s);
  CHECK(a.history.size() == 1);
  w.net.freeze(b.host);
  const TimePoint frozen = w.net.now();
  REQUIRE(w.run_until([&] { return a.agents.empty(); }, 10s));
  CHECK(w.net.now() - frozen <= 2s);
  w.run_for(20s);
  w.net.thaw(b.host);
  REQUIRE(w.run_until([&] { return a.agents.size() == 1 && b.agents.size() == 1; }, 60s));
  const int before = b.asked;
  caf::anon_send(a.agents.begin()->second, 1);  // the new handle works
  CHECK(w.run_until([&] { return b.asked == before + 1; }, 5s));
}

TEST_CASE("a partition heals, and handles from before it are good again") {
  MeshWorld w(8);
  SimNode& a = w.add("ps", 0, {}, 1, "127.0.0.1:1000");
  SimNode& b = w.add("worker", 0, {a.address});
  SimNode& c = w.add("worker", 1, {a.address});
  const auto met = [&] {
    return a.agents.size() == 2 && b.agents.size() == 2 && c.agents.size() == 2;
  };
  REQUIRE(w.run_until(met, 10s));
  uint64_t got = 0;
  caf::actor inbox = c.system.spawn(
      [&got]() -> caf::behavior { return {[&got](const Acknowledged& m) { got = m.ticket; }}; });
  c.doors.open(caf::actor_cast<caf::strong_actor_ptr>(inbox));
  const auto handle = caf::actor_cast<caf::actor>(b.mesh->proxy("/job:worker/task:1", inbox.id()));
  const auto arrives = [&](uint64_t ticket) {
    caf::anon_send(handle, Acknowledged{ticket, 0, Errc::ok, "", 0});
    return w.run_until([&] { return got == ticket; }, 1s);
  };
  CHECK(arrives(1));
  w.net.cut(b.host, c.host);
  REQUIRE(w.run_until([&] { return b.agents.size() == 1 && c.agents.size() == 1; }, 10s));
  CHECK(a.agents.size() == 2);
  w.run_for(10s);
  CHECK(!arrives(2));
  w.net.heal();
  REQUIRE(w.run_until(met, 60s));
  CHECK(arrives(3));
  c.doors.close(inbox.id());
  caf::anon_send_exit(inbox, caf::exit_reason::kill);
}

TEST_CASE("a connection that is reset is made again, in mid-traffic and again and again") {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    MeshWorld w(seed);
    SimNode& a = w.add("ps", 0, {}, 1, "127.0.0.1:1000");
    SimNode& b = w.add("worker", 0, {a.address}, 1, "127.0.0.1:1001");
    const auto met = [&] { return a.agents.size() == 1 && b.agents.size() == 1; };
    for (int round = 0; round < 5; ++round) {
      REQUIRE(w.run_until(met, 10s));
      const auto proxy = a.mesh->proxy("/job:worker/task:0", 1);
      const Tensor some = Tensor::empty(DType::u8, Shape{int64_t{4} << 20});
      proxy->enqueue(nullptr, caf::make_message_id(), caf::make_message(Deliver{.value = some}),
                     nullptr);
      caf::anon_send(a.agents.begin()->second, 1);
      w.run_for(sim::ns(static_cast<int64_t>(w.net.draw() % 2'000'000)));
      w.net.reset(a.host, b.host);
      REQUIRE(w.run_until([&] { return a.agents.empty() && b.agents.empty(); }, 1s));
    }
    REQUIRE(w.run_until(met, 10s));
    CHECK(a.history.size() == 11);  // up, then down and up each time
    const int before = b.asked;
    caf::anon_send(a.agents.begin()->second, 1);
    CHECK(w.run_until([&] { return b.asked > before; }, 5s));
  }
}

TEST_CASE("a killed member goes down at once, and a newer incarnation takes its task") {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    MeshWorld w(seed);
    SimNode& a = w.add("ps", 0, {}, 1, "127.0.0.1:1000");
    SimNode& b = w.add("worker", 0, {a.address}, 1, "127.0.0.1:1001");
    REQUIRE(w.run_until([&] { return a.agents.size() == 1 && b.agents.size() == 1; }, 10s));
    w.net.kill(b.host);
    const TimePoint killed = w.net.now();
    REQUIRE(w.run_until([&] { return a.agents.empty(); }, 10s));
    CHECK(w.net.now() - killed <= 100ms);
    SimNode& again = w.add("worker", 0, {a.address}, 2, "127.0.0.1:1001");
    REQUIRE(w.run_until([&] { return a.agents.size() == 1 && again.agents.size() == 1; }, 10s));
    CHECK(a.history == std::vector<std::string>{"up /job:worker/task:0", "down /job:worker/task:0",
                                                "up /job:worker/task:0"});
  }
}

// The actors of both lives have equal numbers.
TEST_CASE("a message for an actor of an earlier life does not reach the actor that follows it") {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    MeshWorld w(seed);
    SimNode& a = w.add("ps", 0, {}, 1, "127.0.0.1:1000");
    SimNode& b = w.add("worker", 0, {a.address}, 1, "127.0.0.1:1001");
    REQUIRE(w.run_until([&] { return a.agents.size() == 1 && b.agents.size() == 1; }, 10s));
    uint64_t before = 0, after = 0;
    const auto inbox_of = [](SimNode& node, uint64_t& got) {
      caf::actor inbox = node.system.spawn([&got]() -> caf::behavior {
        return {[&got](const Acknowledged& m) { got = m.ticket; }};
      });
      node.doors.open(caf::actor_cast<caf::strong_actor_ptr>(inbox));
      return inbox;
    };
    const auto proxy_to = [&](const caf::actor& inbox) {
      return caf::actor_cast<caf::actor>(a.mesh->proxy("/job:worker/task:0", inbox.id()));
    };
    const caf::actor inbox = inbox_of(b, before);
    const caf::actor old = proxy_to(inbox), old_agent = a.agents.begin()->second;
    caf::anon_send(old, Acknowledged{1, 0, Errc::ok, "", 0});
    REQUIRE(w.run_until([&] { return before == 1; }, 1s));
    w.net.kill(b.host);
    REQUIRE(w.run_until([&] { return a.agents.empty(); }, 10s));
    SimNode& again = w.add("worker", 0, {a.address}, 2, "127.0.0.1:1001");
    REQUIRE(w.run_until([&] { return a.agents.size() == 1 && again.agents.size() == 1; }, 10s));
    const caf::actor next = inbox_of(again, after);
    REQUIRE(next.id() == inbox.id());
    caf::anon_send(old, Acknowledged{2, 0, Errc::ok, "", 0});
    caf::anon_send(old_agent, 7);
    w.run_for(1s);
    CHECK(after == 0);
    CHECK(again.asked == 0);
    caf::anon_send(proxy_to(next), Acknowledged{3, 0, Errc::ok, "", 0});
    REQUIRE(w.run_until([&] { return after == 3; }, 1s));
    b.doors.close(inbox.id());
    again.doors.close(next.id());
    caf::anon_send_exit(inbox, caf::exit_reason::kill);
    caf::anon_send_exit(next, caf::exit_reason::kill);
  }
}

TEST_CASE("a newer incarnation waits for a frozen older one to be given up, then takes its place") {
  MeshWorld w(9);
  SimNode& a = w.add("ps", 0, {}, 1, "127.0.0.1:1000");
  SimNode& b = w.add("worker", 0, {a.address});
  REQUIRE(w.run_until([&] { return a.agents.size() == 1; }, 10s));
  w.net.freeze(b.host);
  SimNode& newer = w.add("worker", 0, {a.address}, 2);
  REQUIRE(w.run_until([&] { return newer.agents.size() == 1; }, 10s));
  CHECK(newer.refusal.empty());
  CHECK(a.history.back() == "up /job:worker/task:0");
  CHECK(a.history.size() == 3);  // up, down, up
  // The older incarnation returns, is refused, and gives up.
  w.net.thaw(b.host);
  REQUIRE(w.run_until([&] { return !b.refusal.empty(); }, 60s));
  CHECK(b.refusal.find("started anew") != b.refusal.npos);
  CHECK(newer.agents.size() == 1);
}

TEST_CASE(
    "a second process of a task is told where the first one runs, and the first one loses "
    "nothing") {
  MeshWorld w(10);
  SimNode& a = w.add("ps", 0, {}, 1, "127.0.0.1:1000");
  SimNode& b = w.add("worker", 0, {a.address});
  REQUIRE(w.run_until([&] { return a.agents.size() == 1; }, 10s));
  SimNode& twin = w.add("worker", 0, {a.address}, 2);
  REQUIRE(w.run_until([&] { return !twin.refusal.empty(); }, 10s));
  CHECK(twin.refusal.find("/job:worker/task:0 runs already, at " + b.address) != twin.refusal.npos);
  CHECK(a.history == std::vector<std::string>{"up /job:worker/task:0"});
  CHECK(b.refusal.empty());
}

TEST_CASE("a member that leaves is not dialled again, one that died is") {
  MeshWorld w(11);
  SimNode& a = w.add("ps", 0, {}, 1, "127.0.0.1:1000");
  SimNode& b = w.add("worker", 0, {a.address}, 1, "127.0.0.1:1001");
  REQUIRE(w.run_until([&] { return a.agents.size() == 1; }, 10s));
  b.mesh->stop();
  REQUIRE(w.run_until([&] { return a.agents.empty(); }, 1s));
  int dialled = 0;
  const auto listener = b.host.listen("127.0.0.1:1001", [&](ConnectionPtr) { ++dialled; });
  w.run_for(60s);
  CHECK(dialled == 0);

  MeshWorld v(12);
  SimNode& c = v.add("ps", 0, {}, 1, "127.0.0.1:1000");
  SimNode& d = v.add("worker", 0, {c.address}, 1, "127.0.0.1:1001");
  REQUIRE(v.run_until([&] { return c.agents.size() == 1; }, 10s));
  v.net.kill(d.host);
  REQUIRE(v.run_until([&] { return c.agents.empty(); }, 1s));
  const auto other = v.net.add("other").listen("127.0.0.1:1001", [&](ConnectionPtr) { ++dialled; });
  v.run_for(60s);
  CHECK(dialled > 0);
}

TEST_CASE("what finds no room on a full link is answered here, or the link ends") {
  const auto made = [](const auto&... all) { return std::vector{caf::make_message(all)...}; };
  for (const caf::message& last :
       made(Push{}, Pull{}, StartStep{}, Deliver{}, FinishStep{}, CancelStep{})) {
    CAPTURE(caf::to_string(last));
    MeshWorld w(14);
    SimNode& a = w.add("ps", 0, {}, 1, "127.0.0.1:1000");
    SimNode& b = w.add("worker", 0, {a.address});
    REQUIRE(w.run_until([&] { return a.agents.size() == 1 && b.agents.size() == 1; }, 10s));
    w.net.cut(a.host, b.host, /*one_way=*/true);  // a still hears b
    const auto proxy = a.mesh->proxy("/job:worker/task:0", 1);
    const auto send = [&](const caf::message& m) {
      proxy->enqueue(nullptr, caf::make_message_id(), m, nullptr);
    };
    const auto fill = [&](int64_t elements) {  // with messages that may be lost
      const Tensor some = Tensor::empty(DType::u8, Shape{elements});
      for (int64_t before = a.mesh->dropped(); a.mesh->dropped() == before;)
        send(caf::make_message(Push{.gradient = some}));
    };
    fill(kInlineMax);
    fill(0);
    send(last);
    w.run_for(200ms);  // shorter than the limit of silence
    const MessageKind& kind = *data_kinds()->find(last);
    CHECK(a.agents.size() == (kind.refusal(last, {Errc::out_of_memory, ""}).empty() ? 0 : 1));
  }
}

TEST_CASE("who listens on loopback alone is dialled from its own machine only") {
  MeshWorld w(15);
  SimNode& a = w.add("ps", 0, {}, 1, "10.0.0.1:1000");
  a.host.ip = "10.0.0.1";
  SimNode& far = w.add("client", 0, {a.address}, 1, "127.0.0.1:5000");
  far.host.ip = "10.0.0.9";
  REQUIRE(w.run_until([&] { return a.agents.size() == 1; }, 10s));
  SimNode& near = w.add("worker", 0, {a.address}, 1, "127.0.0.1:6000");
  near.host.ip = "10.0.0.1";
  const auto met = [&] { return far.agents.size() == 2 && near.agents.size() == 2; };
  w.run_for(60s);
  // Neither could be told where to dial the other.
  CHECK(a.agents.size() == 2);
  CHECK(!met());
  SimNode& open = w.add("worker", 1, {a.address}, 1, "10.0.0.2:1000");
  open.host.ip = "10.0.0.2";
  REQUIRE(w.run_until([&] { return open.agents.size() == 3; }, 10s));
  // Once it is gone, its port on other machines belongs to another owner.
  w.net.kill(far.host);
  int dialled = 0;
  const auto listener =
      w.net.add("other").listen("127.0.0.1:5000", [&](ConnectionPtr) { ++dialled; });
  w.run_for(60s);
  CHECK(dialled == 0);
}

TEST_CASE("members that have forgotten each other are named again by a third one") {
  MeshWorld w(17);
  SimNode& a = w.add("ps", 0, {}, 1, "127.0.0.1:1000");
  SimNode& b = w.add("worker", 0, {a.address});
  SimNode& c = w.add("worker", 1, {a.address});
  const auto all_met = [&] { return b.agents.size() == 2 && c.agents.size() == 2; };
  REQUIRE(w.run_until(all_met, 10s));
  w.net.cut(b.host, c.host);
  w.run_for(11min);
  CHECK(b.agents.size() == 1);
  w.net.heal();
  CHECK(w.run_until(all_met, 2min));
}

TEST_CASE("equal seeds give equal clusters, event by event") {
  const auto history = [](uint64_t seed) {
    MeshWorld w(seed);
    SimNode& a = w.add("ps", 0, {}, 1, "127.0.0.1:1000");
    w.add("worker", 0, {a.address});
    w.add("worker", 1, {a.address});
    w.run_for(5s);
    return w.net.trace();
  };
  CHECK(history(1) == history(1));
  CHECK(history(1) != history(2));
}

// CAF reads control messages; this test feeds it malformed bytes.
TEST_CASE("a peer with malformed control messages loses its link at most, and others still join") {
  int ended = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    MeshWorld w(seed);
    std::mt19937_64 dice(seed);
    SimNode& ps = w.add("ps", 0, {});
    int spared = static_cast<int>(dice() % 6), spoiled = 0;  // frames
    w.net.filter = [&](const sim::SimFrame& f) {
      if (f.from != "worker0" || f.channel != Channel::caf || --spared >= 0)
        return sim::Verdict::pass;
      if (++spoiled > 3) return sim::Verdict::pass;
      const auto payload = std::span(f.bytes).subspan(kFrameHeader);
      // Damages some bytes, the numbers of a header, or the whole payload.
      const size_t count = dice() % 4 == 0 ? payload.size() : 1 + dice() % 4;
      for (size_t i = 0; i < count; ++i)
        payload[dice() % payload.size()] = static_cast<std::byte>(dice() % 3 ? dice() : 0xff);
      seal(f.bytes);
      return sim::Verdict::pass;
    };
    SimNode& evil = w.add("worker", 0, {ps.address});
    w.run_for(1s);
    for (int i = 0; i < 4; ++i) {
      if (evil.agents.count("/job:ps/task:0")) caf::anon_send(evil.agents.at("/job:ps/task:0"), i);
      w.run_for(200ms);
    }
    ended += static_cast<int>(
        std::count(ps.history.begin(), ps.history.end(), "down /job:worker/task:0"));
    SimNode& good = w.add("worker", 1, {ps.address});
    REQUIRE(w.run_until([&] { return good.agents.count("/job:ps/task:0") > 0; }, 10s));
    const int before = ps.asked;
    caf::anon_send(good.agents.at("/job:ps/task:0"), 1);
    REQUIRE(w.run_until([&] { return ps.asked > before; }, 5s));
  }
  CHECK(ended > 10);  // the damage had an effect
}

}  // namespace troupe

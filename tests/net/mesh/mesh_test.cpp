// Meshes over loopback: several actor systems in one process, each with its own net thread, as real
// processes have them.
#include <sstream>

#include <spdlog/sinks/ostream_sink.h>

#include "tests/support/mesh_node.hpp"

namespace troupe {

using namespace std::chrono_literals;

TEST_CASE(
    "three processes meet through one seed, and their agents and proxies can be used both ways") {
  // Processes may start in any order: the second and third start before their seed.
  int port = 0;
  {
    MeshNode probe("ps", 9, {});
    port = std::stoi(probe.address.substr(probe.address.rfind(':') + 1));
  }
  const std::string seed = "127.0.0.1:" + std::to_string(port);
  MeshNode b("worker", 0, {seed}), c("worker", 1, {seed});
  CHECK(b.mesh->waiting_for({"/job:worker/task:0", "/job:ps/task:0"}) ==
        std::vector<std::string>{"/job:ps/task:0"});
  MeshNode a("ps", 0, {}, [&](MeshOptions& o) { o.listen = seed; });
  for (MeshNode* n : {&a, &b, &c}) REQUIRE(n->wait_members(2));
  CHECK(b.mesh->waiting_for({"/job:ps/task:0", "/job:worker/task:1"}).empty());

  SUBCASE("requests travel by CAF inside the link") {
    caf::scoped_actor self{b.system};
    for (const char* name : {"/job:ps/task:0", "/job:worker/task:1"}) {
      int got = -1;
      self->request(b.agent_of(name), 10s, 4)
          .receive([&](int x) { got = x; }, [](const caf::error&) {});
      CHECK(got == (std::string(name) == "/job:ps/task:0" ? 40 : 41));
    }
  }

  SUBCASE("a proxy equals the remote actor, and a tensor of 64 MiB arrives with its bits") {
    const auto there = a.make_inbox(), here = b.make_inbox();
    const auto proxy = b.mesh->proxy("/job:ps/task:0", there->id());
    REQUIRE(proxy);
    CHECK(proxy->id() == there->id());
    CHECK(proxy->node() == a.system.node());
    CHECK(proxy == b.mesh->proxy("/job:ps/task:0", there->id()));
    const caf::actor theirs = b.agent_of("/job:ps/task:0");
    CHECK(caf::actor_cast<caf::actor>(b.mesh->proxy("/job:ps/task:0", theirs.id())) == theirs);
    CHECK(b.mesh->proxy("/job:nobody/task:0", 1) == nullptr);

    Tensor t = Tensor::empty(DType::f32, Shape{16 << 20});
    for (int64_t i = 0; i < t.size(); ++i)
      t.mutable_data<float>()[i] = static_cast<float>(i % 7919);
    Key key{.session = 5, .executable = 6, .edge = 7};
    send_as(here, proxy, Deliver{key, false, Errc::ok, "", t});
    REQUIRE(inbox(there).wait_for(1));
    const auto got = inbox(there).messages[0].get_as<Deliver>(0);
    CHECK(same_bits(got.value, t));
    CHECK(got.key == key);
    CHECK(b.mesh->stats().at("/job:ps/task:0").bytes_out > 64 << 20);

    // The answer goes to the sender that the receiver saw.
    const auto back = inbox(there).senders[0];
    REQUIRE(back);
    CHECK(same(back, here));
    send_as(there, back, Acknowledged{9, 8, Errc::ok, "", 3});
    REQUIRE(inbox(here).wait_for(1));
    CHECK(inbox(here).messages[0].get_as<Acknowledged>(0).ticket == 9);
    CHECK(same(inbox(here).senders[0], there));
  }

  SUBCASE("a request to a proxy that is not of the data plane is refused at once") {
    const auto there = a.make_inbox();
    const auto proxy = caf::actor_cast<caf::actor>(b.mesh->proxy("/job:ps/task:0", there->id()));
    caf::scoped_actor self{b.system};
    caf::error refused;
    self->request(proxy, 20s, 7).receive([](int) {}, [&](const caf::error& e) { refused = e; });
    CHECK(refused == caf::sec::request_receiver_down);
  }

  SUBCASE("a message for a door that is not there is counted, and a request is answered") {
    const auto here = b.make_inbox();
    const auto proxy = b.mesh->proxy("/job:ps/task:0", 123456);
    send_as(here, proxy, Deliver{});
    send_as(here, proxy, Pull{1, 2, 3, 4, 5, 66});
    REQUIRE(inbox(here).wait_for(1));
    CHECK(inbox(here).messages[0].get_as<Pulled>(0).ticket == 66);
    CHECK(inbox(here).messages[0].get_as<Pulled>(0).code == Errc::stale);
    CHECK(a.mesh->dropped() == 2);
  }

  SUBCASE("a tensor for which there is no memory reaches its reader as an error") {
    MeshNode small("ps", 1, {seed}, [](MeshOptions& o) {
      o.allocate = [](DType, const Shape&) -> Tensor {
        throw Error(Errc::out_of_memory, "the pool is empty");
      };
    });
    REQUIRE(b.wait_members(3));
    const auto there = small.make_inbox(), here = b.make_inbox();
    const auto proxy = b.mesh->proxy("/job:ps/task:1", there->id());
    const Tensor large = Tensor::empty(DType::f32, Shape{100'000});
    send_as(here, proxy, Deliver{.key = {.edge = 4}, .value = large});
    send_as(here, proxy, Push{.ticket = 77, .gradient = Tensor::scalar<float>(1)});
    REQUIRE(inbox(there).wait_for(1));
    const auto failed = inbox(there).messages[0].get_as<Deliver>(0);
    CHECK(failed.error == Errc::out_of_memory);
    CHECK(failed.key.edge == 4);
    CHECK(failed.text.find("the pool is empty") != failed.text.npos);
    REQUIRE(inbox(here).wait_for(1));
    CHECK(inbox(here).messages[0].get_as<Acknowledged>(0).ticket == 77);
    CHECK(inbox(here).messages[0].get_as<Acknowledged>(0).code == Errc::out_of_memory);
  }

  SUBCASE(
      "a process that ends is down for the others at once, and what is sent to it is answered") {
    const auto there = a.make_inbox(), here = b.make_inbox();
    const auto proxy = b.mesh->proxy("/job:ps/task:0", there->id());
    caf::scoped_actor self{b.system};
    self->monitor(caf::actor_cast<caf::actor>(proxy));
    self->monitor(b.agent_of("/job:ps/task:0"));
    a.stop();
    REQUIRE(b.wait_members(1));
    REQUIRE(c.wait_members(1));
    CHECK(b.history.back() == "down /job:ps/task:0");
    for (int i = 0; i < 2; ++i) {
      bool down = false;
      self->receive(
          [&](caf::down_msg& d) { down = d.reason == caf::exit_reason::remote_link_unreachable; },
          caf::after(20s) >> [] {});
      CHECK(down);
    }
    send_as(here, proxy, Push{1, 2, 3, 4, 5, 6, 77, Tensor::scalar<float>(1)});
    send_as(here, proxy, StartStep{1, 2, 3, 4, 5, 6});
    REQUIRE(inbox(here).wait_for(2));
    CHECK(inbox(here).messages[0].get_as<Acknowledged>(0).code == Errc::peer_lost);
    CHECK(inbox(here).messages[0].get_as<Acknowledged>(0).ticket == 77);
    CHECK(inbox(here).messages[1].get_as<FinishStep>(0).task == "/job:ps/task:0");
    CHECK(b.mesh->proxy("/job:ps/task:0", 1) == nullptr);
    CHECK(b.mesh->waiting_for({"/job:worker/task:1"}).empty());

    // The restarted process, a newer incarnation at the same address, is found without a new
    // address.
    MeshNode again("ps", 0, {}, [&](MeshOptions& o) {
      o.listen = seed;
      o.incarnation = 2;
    });
    REQUIRE(again.wait_members(2));
    REQUIRE(b.wait_members(2));
    caf::scoped_actor asker{b.system};
    int got = -1;
    asker->request(b.agent_of("/job:ps/task:0"), 10s, 5)
        .receive([&](int x) { got = x; }, [](const caf::error&) {});
    CHECK(got == 50);
  }
}

TEST_CASE("a stranger who speaks something else is refused and reaches nothing") {
  MeshNode a("ps", 0, {});
  const std::string heard = converse(a.address, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  CHECK(heard.find("link of a Troupe cluster") != heard.npos);
  CHECK(converse(a.address, std::string(5000, '\xff')).size() <= kGreetingBytes);
  CHECK(a.mesh->stats().empty());
  CHECK(a.history.empty());
}

TEST_CASE("processes that do not fit together are told why") {
  MeshNode a("ps", 0, {});
  SUBCASE("another cluster") {
    MeshNode b("worker", 0, {a.address}, [](MeshOptions& o) { o.cluster = "other"; });
    REQUIRE(b.wait([&] { return !b.refusal.empty(); }));
    CHECK(b.refusal.find("of cluster \"other\"") != b.refusal.npos);
    CHECK(b.refusal.find("--cluster") != b.refusal.npos);
    CHECK(b.refusal.find(a.address) != b.refusal.npos);
  }
  SUBCASE("other ops") {
    std::ostringstream log;
    const auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(log);
    MeshNode b("worker", 0, {a.address}, [&](MeshOptions& o) {
      o.fingerprint = 99;
      o.log = std::make_shared<spdlog::logger>("net", sink);
    });
    REQUIRE(b.wait([&] { return !b.refusal.empty(); }));
    CHECK(b.refusal.find("different ops") != b.refusal.npos);
    b.stop();                                                     // nothing logs any more
    CHECK(log.str().find("different ops") == std::string::npos);  // its owner says it
  }
  SUBCASE("an older incarnation of a task") {
    {
      MeshNode b("worker", 0, {a.address}, [](MeshOptions& o) { o.incarnation = 5; });
      REQUIRE(a.wait_members(1));
    }
    REQUIRE(a.wait_members(0));
    MeshNode old("worker", 0, {a.address}, [](MeshOptions& o) { o.incarnation = 4; });
    REQUIRE(old.wait([&] { return !old.refusal.empty(); }));
    CHECK(old.refusal.find("started anew") != old.refusal.npos);
  }
  CHECK(a.refusal.empty());
}

TEST_CASE("listening beyond loopback wants an explicit word, and a taken port says so") {
  CHECK_THROWS_WITH_AS(MeshNode("ps", 0, {}, [](MeshOptions& o) { o.listen = "0.0.0.0:0"; }),
                       doctest::Contains("--insecure"), Error);
  CHECK_THROWS_WITH_AS(MeshNode("ps", 0, {}, [](MeshOptions& o) { o.listen = "127.0.0.1"; }),
                       doctest::Contains("no port"), Error);
  MeshNode a("ps", 0, {});
  try {
    MeshNode b("ps", 1, {}, [&](MeshOptions& o) { o.listen = a.address; });
    FAIL("the port is taken");
  } catch (const Error& e) {
    CHECK(e.code() == Errc::io);
    CHECK(std::string(e.what()).find("in use") != std::string::npos);
  }
  for (const char* any : {"0.0.0.0:0", "[::]:0", "0:7000", "[0::0]:0"})
    CHECK_THROWS_WITH_AS(MeshNode("ps", 2, {},
                                  [any](MeshOptions& o) {
                                    o.listen = any;
                                    o.insecure = true;
                                  }),
                         doctest::Contains("give the address"), Error);
}

TEST_CASE("a process is dialled at the address that it announces, or not at all") {
  MeshNode a("ps", 0, {});
  MeshNode unseen("worker", 0, {a.address}, [](MeshOptions& o) { o.announce = kNoAddress; });
  REQUIRE(a.wait_members(1));
  CHECK(a.addresses.at("/job:worker/task:0").empty());
  // Nobody listens there, so that this one makes all its links itself.
  MeshNode relayed("worker", 1, {a.address}, [](MeshOptions& o) { o.announce = "127.0.0.1:1"; });
  REQUIRE(a.wait_members(2));
  CHECK(a.addresses.at("/job:worker/task:1") == "127.0.0.1:1");
  // Neither can dial the other: their addresses lead nowhere.
  MeshNode last("worker", 2, {a.address});
  REQUIRE(last.wait_members(3));
  CHECK(unseen.mesh->waiting_for({"/job:worker/task:1"}) ==
        std::vector<std::string>{"/job:worker/task:1"});
}

TEST_CASE("a task number is drawn by a member that can be dialled") {
  MeshNode a("ps", 0, {}, [](MeshOptions& o) { o.incarnation = 2; });
  MeshNode oldest("client", 0, {a.address}, [](MeshOptions& o) { o.announce = kNoAddress; });
  REQUIRE(a.wait_members(1));
  std::promise<std::pair<Errc, int32_t>> done;
  const auto net = make_net_thread();
  SystemRng rng;
  draw_task(net->transport(), net->clock(), rng, {"troupe", "worker", {a.address}, 0, {}, 3'000ms},
            [&](Errc code, const std::string&, int32_t task) {
              done.set_value({code, task});
            });
  CHECK(done.get_future().get() == std::pair{Errc::ok, 0});
}

TEST_CASE("an address that cannot be dialled is not announced, and a wildcard wants another one") {
  const auto node = [](const char* listen, const char* announce, bool insecure) {
    MeshNode("ps", 0, {}, [&](MeshOptions& o) {
      o.listen = listen;
      o.announce = announce;
      o.insecure = insecure;
    });
  };
  CHECK_THROWS_WITH_AS(node("127.0.0.1:0", "0.0.0.0:7000", true),
                       doctest::Contains("cannot announce"), Error);
  CHECK_THROWS_WITH_AS(node("127.0.0.1:0", "127.0.0.1:0", false),
                       doctest::Contains("cannot announce"), Error);
  CHECK_THROWS_WITH_AS(node("127.0.0.1:0", "localhost:7000", false), doctest::Contains("in digits"),
                       Error);
  CHECK_THROWS_WITH_AS(node("127.0.0.1:0", "10.0.0.5:7000", false), doctest::Contains("--insecure"),
                       Error);
  CHECK_THROWS_WITH_AS(node("127.0.0.1:0", "nowhere", false), doctest::Contains("no port"), Error);
  CHECK_NOTHROW(node("0.0.0.0:0", "127.0.0.1:7000", true));
}

TEST_CASE("a mesh that stops while it joins tells its listener nothing more") {
  MeshNode a("ps", 0, {});
  for (int i = 0; i < 60; ++i) {
    MeshNode b("worker", 0, {a.address},
               [&](MeshOptions& o) { o.incarnation = static_cast<uint64_t>(i + 1); });
    if (i % 3 == 0) continue;
    for (int yields = 0; yields < i * 50; ++yields) std::this_thread::yield();
    if (i % 3 == 2) {
      std::thread one([&] { b.mesh->stop(); });
      b.stop();  // from two threads at once
      one.join();
    }
  }
  CHECK(a.refusal.empty());
}

TEST_CASE("members that come and go draw different task numbers") {
  MeshNode a("ps", 0, {});
  MeshNode b("worker", 0, {a.address});
  REQUIRE(b.wait_members(1));
  auto net = make_net_thread();
  SystemRng rng;
  const auto draw = [&](const std::string& cluster, const std::string& seed) {
    std::promise<std::pair<Errc, int32_t>> done;
    TaskRequest request{cluster, "client", {seed}, 0, {}, 10'000ms};
    draw_task(net->transport(), net->clock(), rng, request,
              [&](Errc code, const std::string&, int32_t task) {
                done.set_value({code, task});
              });
    return done.get_future().get();
  };
  CHECK(draw("troupe", a.address) == std::pair{Errc::ok, 0});
  CHECK(draw("troupe", b.address) == std::pair{Errc::ok, 1});
  CHECK(draw("troupe", a.address) == std::pair{Errc::ok, 2});
  CHECK(draw("other", a.address).first == Errc::bad_configuration);
}

TEST_CASE("CAF neither listens nor dials, and node ids are random") {
  SystemRng rng;
  MeshConfig one(rng), two(rng);
  caf::actor_system a{one}, b{two};
  CHECK(a.node() != b.node());
  CHECK(node_id_of(a.node()) != node_id_of(b.node()));
  CHECK(caf_node_id(node_id_of(a.node())) == a.node());
  caf::actor actor = a.spawn([]() -> caf::behavior { return {[](int x) { return x; }}; });
  CHECK(!a.middleman().publish(actor, 0));
  CHECK(!a.middleman().open(0));
  CHECK(!a.middleman().remote_actor("127.0.0.1", 9));
  CHECK(!a.middleman().connect("127.0.0.1", 9));
  caf::anon_send_exit(actor, caf::exit_reason::kill);
}

}  // namespace troupe

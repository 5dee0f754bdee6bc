// Meshes that meet processes which are refused, prove nothing or say nothing.
#include "net/mesh/mesh.hpp"

#include "net/link/greetings.hpp"
#include "tests/support/mesh_world.hpp"
#include "tests/support/raw_frames.hpp"

namespace troupe {

using namespace std::chrono_literals;

TEST_CASE("a stranger at the address of a member that died ends nobody, nor does a late seed") {
  const auto bytes_of = [](const Greeting& greeting) {
    const auto packet = encode(greeting);
    return std::string(reinterpret_cast<const char*>(packet.data()), packet.size());
  };
  Hello other;
  other.cluster = "other";
  other.job = "web";
  const std::string refuses = bytes_of(refusal(other, Refusal::other_cluster, "not this cluster"));
  for (const std::string& words : {std::string("HTTP/1.1 400 Bad Request\r\n\r\n"), refuses}) {
    MeshWorld w(13);
    SimNode& a = w.add("ps", 0, {}, 1, "127.0.0.1:1000");
    SimNode& b = w.add("worker", 0, {a.address, "127.0.0.1:2000"});
    SimNode& c = w.add("worker", 1, {a.address}, 1, "127.0.0.1:1001");
    REQUIRE(w.run_until([&] { return a.agents.size() == 2 && b.agents.size() == 2; }, 10s));
    w.net.kill(c.host);
    std::vector<std::unique_ptr<Stranger>> calls;
    const auto answer = [&](ConnectionPtr connection) {
      calls.push_back(std::make_unique<Stranger>(std::move(connection)));
      calls.back()->say(words);
    };
    sim::SimHost& stranger = w.net.add("stranger");
    const auto there = stranger.listen("127.0.0.1:1001", answer),
               at_seed = stranger.listen("127.0.0.1:2000", answer);
    w.run_for(60s);
    CHECK(calls.size() > 3);
    CHECK(a.refusal.empty());
    CHECK(b.refusal.empty());
    CHECK(a.agents.size() == 1);
    CHECK(b.agents.size() == 1);
    calls.clear();
  }
}

TEST_CASE(
    "a process with the node id of another one is to be started again, others that do not fit "
    "end") {
  for (const auto& [why, code] : {std::pair(Refusal::same_node, Errc::peer_lost),
                                  std::pair(Refusal::other_ops, Errc::bad_configuration)}) {
    MeshWorld w(14);
    Hello other = hello_of("ps", 0);
    other.cluster = "troupe";
    const auto packet = encode(refusal(other, why, "it does not fit"));
    std::vector<std::unique_ptr<Stranger>> calls;
    const auto there =
        w.net.add("ps0").listen("127.0.0.1:1000", [&, packet = packet](ConnectionPtr connection) {
          calls.push_back(std::make_unique<Stranger>(std::move(connection)));
          calls.back()->say(packet);
        });
    SimNode& node = w.add("worker", 0, {"127.0.0.1:1000"});
    REQUIRE(w.run_until([&] { return !node.refusal.empty(); }, 10s));
    CHECK(node.refusal_code == code);
    CHECK(node.log.str().find("dials no more") == std::string::npos);  // the listener says it
  }
}

TEST_CASE("a process that is refused after it has joined says that it dials no more") {
  MeshWorld w(15);
  SimNode& a = w.add("ps", 0, {}, 1, "127.0.0.1:1000");
  SimNode& b = w.add("worker", 0, {a.address}, 1);
  REQUIRE(w.run_until([&] { return b.agents.size() == 1; }, 10s));
  w.net.kill(a.host);
  Hello other = hello_of("ps", 0);
  other.cluster = "troupe";
  const auto packet = encode(refusal(other, Refusal::other_ops, "it does not fit"));
  std::vector<std::unique_ptr<Stranger>> calls;
  const auto there = w.net.add("next").listen("127.0.0.1:1000", [&](ConnectionPtr connection) {
    calls.push_back(std::make_unique<Stranger>(std::move(connection)));
    calls.back()->say(packet);
  });
  REQUIRE(w.run_until([&] { return !b.refusal.empty(); }, 60s));
  CHECK(b.log.str().find("refused, dials no more: address=127.0.0.1:1000 reason=it does not fit") !=
        std::string::npos);
}

TEST_CASE("a stranger without the secret at the port of the only other member ends nobody") {
  MeshWorld w(21);
  w.secret = "the secret of this cluster";
  SimNode& a = w.add("ps", 0, {"127.0.0.1:1001"}, 1, "127.0.0.1:1000");
  SimNode& b = w.add("worker", 0, {a.address}, 1, "127.0.0.1:1001");
  REQUIRE(w.run_until([&] { return a.agents.size() == 1 && b.agents.size() == 1; }, 10s));
  w.net.kill(b.host);
  w.secret = "the secret of another one";
  SimNode& stranger = w.add("worker", 0, {}, 2, "127.0.0.1:1001");
  w.run_for(30s);
  CHECK(a.refusal.empty());
  CHECK(a.agents.empty());
  w.net.kill(stranger.host);
  w.secret = "the secret of this cluster";
  SimNode& again = w.add("worker", 0, {a.address}, 3, "127.0.0.1:1001");
  CHECK(w.run_until([&] { return a.agents.size() == 1 && again.agents.size() == 1; }, 10s));
}

TEST_CASE("a seed that does not greet is named in the log") {
  MeshWorld w(16);
  std::vector<ConnectionPtr> calls;
  const auto there = w.net.add("mute").listen(
      "127.0.0.1:1000", [&](ConnectionPtr connection) { calls.push_back(std::move(connection)); });
  SimNode& a = w.add("worker", 0, {"127.0.0.1:1000"});
  w.run_for(20s);
  CHECK(a.log.str().find("still waiting for a seed: address=127.0.0.1:1000 error=no greeting") !=
        std::string::npos);
}

TEST_CASE("members that fill every place keep out no task that was a member before") {
  MeshWorld w(23);
  SimNode& a = w.add("ps", 0, {}, 1, "127.0.0.1:1000");
  SimNode& b = w.add("worker", 0, {a.address});
  REQUIRE(w.run_until([&] { return a.agents.size() == 1 && b.agents.size() == 1; }, 10s));
  w.net.kill(b.host);
  REQUIRE(w.run_until([&] { return a.agents.empty(); }, 10s));
  std::vector<std::unique_ptr<Stranger>> evil;
  sim::SimHost& host = w.net.add("evil");
  Hello hello = hello_of("web", 0);
  hello.cluster = "troupe";
  hello.address.clear();
  const auto join = [&](const std::string& job, int task) {
    host.dial(a.address, 1s, [&, job, task](ConnectionPtr connection, const std::string&) {
      if (!connection) return;
      hello.job = job;
      hello.task = task;
      hello.node.host[0] = static_cast<uint8_t>(task);
      hello.node.host[1] = static_cast<uint8_t>(task >> 8);
      hello.node.host[2] = static_cast<uint8_t>(job.size());
      evil.push_back(std::make_unique<Stranger>(std::move(connection)));
      evil.back()->greet(hello);
      evil.back()->say(frame(Channel::control, static_cast<uint16_t>(Control::confirm), {}));
    });
  };
  constexpr size_t kPlaces = 1024;
  for (int task = 0; task < static_cast<int>(kPlaces); ++task) {
    join("web", task);
    if (task % 32 == 31) w.run_for(2ms);  // fewer at a time than strangers may be
  }
  REQUIRE(w.run_until([&] { return a.mesh->stats().size() == kPlaces; }, 200ms));
  join("late", 0);
  REQUIRE(w.run_until([&] { return !evil.back()->closed.empty(); }, 100ms));
  CHECK(evil.back()->heard.find("its limit") != std::string::npos);
  const SimNode& again = w.add("worker", 0, {a.address}, 2);
  CHECK(w.run_until([&] { return a.mesh->stats().count("/job:worker/task:0") > 0; }, 300ms));
  CHECK(again.refusal.empty());
  evil.clear();
}

TEST_CASE("silent strangers keep no member out for long") {
  MeshWorld w(18);
  SimNode& a = w.add("ps", 0, {}, 1, "127.0.0.1:1000");
  std::vector<std::unique_ptr<Stranger>> strangers;
  sim::SimHost& host = w.net.add("strangers");
  for (int i = 0; i < 64; ++i)
    host.dial(a.address, 1s, [&](ConnectionPtr connection, const std::string&) {
      if (connection) strangers.push_back(std::make_unique<Stranger>(std::move(connection)));
    });
  REQUIRE(w.run_until([&] { return strangers.size() == 64; }, 1s));
  w.run_for(600ms);
  const SimNode& b = w.add("worker", 0, {a.address});
  CHECK(w.run_until([&] { return b.agents.size() == 1; }, 500ms));
  CHECK(std::count_if(strangers.begin(), strangers.end(),
                      [](const auto& s) { return !s->closed.empty(); }) == 1);
  strangers.clear();
}

TEST_CASE("task numbers are reserved for a bounded number of askers") {
  MeshWorld w(19);
  SimNode& a = w.add("ps", 0, {}, 1, "127.0.0.1:1000");
  sim::SimHost& asker = w.net.add("asker");
  const auto draw = [&](int job) {
    std::optional<Errc> told;
    draw_task(asker, asker, asker.rng(),
              {"troupe", "job" + std::to_string(job), {a.address}, 0, {}, 300ms},
              [&](Errc code, const std::string&, int32_t) { told = code; });
    REQUIRE(w.run_until([&] { return told.has_value(); }, 10s));
    return *told;
  };
  int drawn = 0;
  while (drawn < 3000 && draw(drawn) == Errc::ok) ++drawn;
  CHECK(drawn == 1024);
  w.run_for(31s);
  CHECK(draw(drawn) == Errc::ok);
}

TEST_CASE("the number of a lost member is not drawn while its process may be on its way back") {
  MeshWorld w(20);
  SimNode& a = w.add("ps", 0, {}, 1, "127.0.0.1:1000");
  SimNode& b = w.add("worker", 0, {a.address}, 1, "127.0.0.1:1001");
  REQUIRE(w.run_until([&] { return a.agents.size() == 1; }, 10s));
  w.net.kill(b.host);
  REQUIRE(w.run_until([&] { return a.agents.empty(); }, 10s));
  sim::SimHost& asker = w.net.add("asker");
  const auto draw = [&] {
    std::optional<int32_t> drawn;
    draw_task(
        asker, asker, asker.rng(), {"troupe", "worker", {a.address}, 0, {}, 300ms},
        [&](Errc code, const std::string&, int32_t task) { drawn = code == Errc::ok ? task : -1; });
    REQUIRE(w.run_until([&] { return drawn.has_value(); }, 10s));
    return *drawn;
  };
  CHECK(draw() == 1);
  SimNode& again = w.add("worker", 0, {a.address}, 2, "127.0.0.1:1002");  // by its number
  REQUIRE(w.run_until([&] { return a.agents.size() == 1; }, 10s));
  w.net.kill(again.host);
  REQUIRE(w.run_until([&] { return a.agents.empty(); }, 10s));
  w.run_for(31s);
  CHECK(draw() == 0);
}

TEST_CASE("a task draw ends in time, whatever it talks to") {
  for (const bool listens : {true, false})
    for (const auto timeout : {300ms, 1000ms, 7000ms}) {
      CAPTURE(timeout.count());
      MeshWorld w(16);
      std::vector<ConnectionPtr> silent;
      std::unique_ptr<Listener> listener;
      if (listens)
        listener = w.net.add("silent").listen("127.0.0.1:1000", [&](ConnectionPtr connection) {
          silent.push_back(std::move(connection));
        });
      sim::SimHost& asker = w.net.add("asker");
      Errc told = Errc::ok;
      const TimePoint begin = w.net.now();
      draw_task(asker, asker, asker.rng(), {"troupe", "worker", {"127.0.0.1:1000"}, 0, {}, timeout},
                [&](Errc code, const std::string&, int32_t) { told = code; });
      REQUIRE(w.run_until([&] { return told != Errc::ok; }, 60s));
      CHECK(told == Errc::peer_lost);
      CHECK(w.net.now() - begin <= timeout + 1ms);
    }
}

TEST_CASE("members with a secret meet, and one without it is refused for good") {
  MeshWorld w(17);
  w.secret = "the secret of this cluster";
  SimNode& a = w.add("ps", 0, {}, 1, "127.0.0.1:1000");
  SimNode& b = w.add("worker", 0, {a.address});
  SimNode& c = w.add("worker", 1, {a.address});
  REQUIRE(w.run_until([&] { return b.agents.size() == 2 && c.agents.size() == 2; }, 10s));
  caf::anon_send(b.agents.at("/job:ps/task:0"), 1);
  REQUIRE(w.run_until([&] { return a.asked == 1; }, 5s));
  for (const char* other : {"", "the secret of another one"}) {
    w.secret = other;
    SimNode& d = w.add("worker", 2, {a.address});
    REQUIRE(w.run_until([&] { return !d.refusal.empty(); }, 10s));
    CHECK(d.refusal.find("--secret-file") != std::string::npos);
    CHECK(d.agents.empty());
  }
  CHECK(a.refusal.empty());
  CHECK(a.agents.size() == 2);
}

TEST_CASE("a process that proves nothing moves no member and draws no number") {
  MeshWorld w(18);
  w.secret = "the secret of this cluster";
  SimNode& a = w.add("ps", 0, {}, 1, "127.0.0.1:1000");
  w.add("worker", 0, {a.address}, 1, "127.0.0.1:1001");
  REQUIRE(w.run_until([&] { return a.agents.size() == 1; }, 10s));
  std::vector<std::unique_ptr<Stranger>> strangers;
  sim::SimHost& host = w.net.add("stranger");
  Greeting greeting{GreetingKind::hello, Refusal::none, "", {}};
  greeting.hello = {.cluster = "troupe", .job = "worker", .task = 0, .incarnation = ~uint64_t{0}};
  greeting.nonce[0] = std::byte{1};
  for (const auto kind : {GreetingKind::hello, GreetingKind::ask_task}) {
    greeting.kind = kind;
    for (const int task : {0, 7}) {
      greeting.hello.task = task;
      host.dial("127.0.0.1:1000", 1s, [&](ConnectionPtr connection, const std::string&) {
        strangers.push_back(std::make_unique<Stranger>(std::move(connection)));
        strangers.back()->say(encode(greeting));
      });
      w.run_for(1s);
    }
  }
  REQUIRE(strangers.size() == 4);
  for (const auto& s : strangers) CHECK(s->heard.size() == kGreetingBytes);  // a challenge
  CHECK(a.agents.size() == 1);
  CHECK(a.history == std::vector<std::string>{"up /job:worker/task:0"});
  std::string why;
  const auto draw = [&](const std::string& secret) {
    std::pair<Errc, int32_t> out{Errc::ok, -1};
    TaskRequest request{"troupe", "worker", {a.address}, 0, {}, 5'000ms};
    if (!secret.empty()) request.secret = std::make_shared<const Secret>(secret, host.rng());
    draw_task(host, host, host.rng(), request,
              [&](Errc code, const std::string& text, int32_t task) {
                out = {code, task};
                why = text;
              });
    w.run_until([&] { return out.second >= 0; }, 10s);
    return out;
  };
  CHECK(draw("") == std::pair{Errc::bad_configuration, 0});
  CHECK(draw("the secret of another one") == std::pair{Errc::bad_configuration, 0});
  CHECK_MESSAGE(why.find("a process that asks for a task number has another secret") != why.npos,
                why);
  CHECK(draw(w.secret) == std::pair{Errc::ok, 1});  // the first that is free: nobody reserved it
  strangers.clear();
}

TEST_CASE("a silent stranger of a member's name does not keep us from dialling that member") {
  MeshWorld w(19);
  w.secret = "the secret of this cluster";
  SimNode& a = w.add("ps", 0, {"127.0.0.1:1001"}, 1, "127.0.0.1:1000");
  std::unique_ptr<Stranger> stranger;
  Greeting greeting{GreetingKind::hello, Refusal::none, "", {}};
  greeting.hello = {.cluster = "troupe", .job = "chief", .task = 0, .incarnation = 1};
  greeting.nonce[0] = std::byte{1};
  w.net.add("stranger").dial(a.address, 1s, [&](ConnectionPtr connection, const std::string&) {
    stranger = std::make_unique<Stranger>(std::move(connection));
    stranger->say(encode(greeting));
  });
  w.run_for(100ms);
  w.add("chief", 0, {}, 1, "127.0.0.1:1001");
  CHECK(w.run_until([&] { return a.agents.size() == 1; }, 3s));
  stranger.reset();
}

}  // namespace troupe

// The listeners of member changes: each is told until it leaves, while listeners and members come
// and go.
#include "actors/master/members.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "actors/async/ask.hpp"

namespace troupe {
namespace {

Member member(int task) { return {"worker", task, 1, "127.0.0.1:1"}; }

// Members of a process; the process's own agent answers for all of them.
struct Rig {
  Process process{"/job:client/task:0", {.threads = 1}};
  Asker asker = spawn_asker(process.system());
  Members members{process, asker, {[](const Member&) {}, [](const Member&, const std::string&) {}}};
  Rig() { process.track(asker); }
  caf::actor agent() const { return caf::actor_cast<caf::actor>(process.agent()); }
  ~Rig() {
    members.stop();
    process.stop();
  }
};

// A slow listener: stays in the call until `held` is false, and a little longer.
struct SlowListener final : MeshListener {
  std::atomic<bool> inside{false}, held{true};
  std::atomic<int> told{0};
  bool removed = false;  // plain on purpose: a call after the removal is a race
  void hear() {
    CHECK(!removed);
    inside = true;
    while (held) std::this_thread::yield();
    for (int i = 0; i < 2000; ++i) std::this_thread::yield();
    CHECK(!removed);
    ++told;
  }
  void up(const Member&, const caf::actor&) override { hear(); }
  void down(const Member&, const std::string&) override { hear(); }
};

// Describes itself at once, on the asking thread. If `holds`, that thread stays in here until
// go_on().
class SlowAgent final : public caf::monitorable_actor {
 public:
  SlowAgent(caf::actor_config& config, bool holds) : monitorable_actor(config), held_(holds) {}
  void enqueue(caf::mailbox_element_ptr message, caf::execution_unit*) override {
    if (!message->content().match_elements<Describe>()) return;
    message->sender->enqueue(nullptr, message->mid.response_id(),
                             caf::make_message(Description{.devices = devices}), nullptr);
    asked_ = true;
    while (held_) std::this_thread::yield();
  }
  void await_question() const {
    while (!asked_) std::this_thread::yield();
  }
  void go_on() { held_ = false; }
  std::vector<std::string> devices = {"/job:worker/task:1/device:cpu:0"};

  static caf::actor make(Process& process, bool holds) {
    caf::actor_config config;
    return caf::make_actor<SlowAgent, caf::actor>(process.system().next_actor_id(),
                                                  process.system().node(), &process.system(),
                                                  config, holds);
  }
  static SlowAgent& of(const caf::actor& agent) {
    return *static_cast<SlowAgent*>(caf::actor_cast<caf::abstract_actor*>(agent));
  }

 private:
  std::atomic<bool> held_, asked_{false};
};

}  // namespace

TEST_CASE("a removed listener is not in the middle of a call, and is never called again") {
  Rig rig;
  for (int round = 0; round < 5; ++round) {
    auto listener = std::make_unique<SlowListener>();
    rig.members.add_listener(listener.get());
    rig.members.up(member(round), rig.agent());
    while (!listener->inside) std::this_thread::yield();
    std::atomic<bool> removing{false};
    std::thread remover([&] {
      removing = true;
      rig.members.remove_listener(listener.get());
      listener->removed = true;
    });
    while (!removing) std::this_thread::yield();
    listener->held = false;
    remover.join();
    CHECK(listener->told == 1);
    listener.reset();
    rig.members.down(member(round), "the test says so");
  }
}

TEST_CASE("who waits for members hears at once that the cluster refuses us") {
  Rig rig;
  rig.members.refused(Errc::bad_configuration, "another cluster");
  const auto begin = std::chrono::steady_clock::now();
  CHECK(rig.members.wait_for({"/job:worker/task:1"}, std::chrono::seconds(20)).size() == 1);
  CHECK(rig.members.wait_for_count(1, "client", std::chrono::seconds(20)) == 0);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
  CHECK(rig.members.refusal().text == "another cluster");
}

TEST_CASE("what came of an older link to the same process says nothing of the newer one") {
  Rig rig;
  const caf::actor first = SlowAgent::make(rig.process, true);
  const caf::actor second = SlowAgent::make(rig.process, false);
  rig.members.up(member(1), first);
  SlowAgent::of(first).await_question();  // the answer waits for the asking thread
  rig.members.down(member(1), "the link was cut");
  rig.members.up(member(1), second);
  SlowAgent::of(first).go_on();
  CHECK(rig.members.wait_for({"/job:worker/task:1"}, std::chrono::seconds(20)).empty());
  CHECK(rig.members.find("/job:worker/task:1").agent.id() == second.id());
}

TEST_CASE("a member without devices is a visitor: it is no member, and nobody hears of its end") {
  Rig rig;
  SlowListener listener;
  listener.held = false;
  rig.members.add_listener(&listener);
  const caf::actor visitor = SlowAgent::make(rig.process, false);
  SlowAgent::of(visitor).devices.clear();
  rig.members.up(member(1), visitor);
  SlowAgent::of(visitor).await_question();
  rig.members.up(member(2), rig.agent());  // described after it
  CHECK(rig.members.wait_for({"/job:worker/task:2"}, std::chrono::seconds(20)).empty());
  CHECK(rig.members.agents().count("/job:worker/task:1") == 0);
  rig.members.down(member(1), "it has left");
  CHECK(listener.told == 1);
  rig.members.remove_listener(&listener);
  listener.removed = true;
}

TEST_CASE("a late listener hears of members that are up already") {
  Rig rig;
  rig.members.up(member(1), rig.agent());
  CHECK(rig.members.wait_for({"/job:worker/task:1"}, std::chrono::seconds(20)).empty());
  SlowListener listener;
  listener.held = false;
  rig.members.add_listener(&listener);
  CHECK(listener.told == 1);
  rig.members.remove_listener(&listener);
}

}  // namespace troupe

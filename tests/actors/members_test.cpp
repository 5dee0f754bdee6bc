// Who is told of members, and until when: listeners that come and go while members do.
#include "actors/members.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "actors/ask.hpp"

namespace troupe {
namespace {

Member member(int task) { return {"worker", task, 1, "127.0.0.1:1"}; }

// Members of a process whose own agent answers for all of them.
struct Rig {
  Process process{"/job:client/task:0", {.threads = 1}};
  caf::actor asker = spawn_asker(process.system());
  Members members{process, asker, {[](const Member&) {}, [](const Member&, const std::string&) {}}};
  Rig() { process.track(asker); }
  ~Rig() {
    members.stop();
    process.stop();
  }
};

// Takes long over what it is told: until `held` is false, and some more.
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

}  // namespace

TEST_CASE("a removed listener is not in the middle of a call, and is never called again") {
  Rig rig;
  for (int round = 0; round < 5; ++round) {
    auto listener = std::make_unique<SlowListener>();
    rig.members.add_listener(listener.get());
    rig.members.up(member(round), rig.process.agent());
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

TEST_CASE("a late listener hears of members that are up already") {
  Rig rig;
  rig.members.up(member(1), rig.process.agent());
  CHECK(rig.members.wait_for({"/job:worker/task:1"}, std::chrono::seconds(20)).empty());
  SlowListener listener;
  listener.held = false;
  rig.members.add_listener(&listener);
  CHECK(listener.told == 1);
  rig.members.remove_listener(&listener);
}

}  // namespace troupe

// The shards of a process as its sessions use them: the receivers of the news of a shard's death,
// and the senders that a shard remembers.
#include <caf/all.hpp>
#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <future>
#include <thread>
#include <utility>

#include "actors/async/messages.hpp"
#include "actors/cluster/process.hpp"
#include "data/files/disk.hpp"
#include "tests/support/shard_user.hpp"
#include "training/group/services.hpp"
#include "training/parameters/messages.hpp"
#include "training/shards/senders.hpp"
#include "training/shards/shard_actor.hpp"
#include "training/shards/shard_lock.hpp"
#include "training/shards/shard.hpp"

namespace troupe {
namespace {

bool hears_of_loss(caf::scoped_actor& session) {
  bool heard = false;
  session->receive([&](const ShardLost& m) { heard = m.container == "shared" && m.shard == 0; },
                   caf::after(std::chrono::seconds(30)) >> [] {});
  return heard;
}

caf::actor stranger(caf::actor_system& system) {
  return system.spawn([](caf::event_based_actor*) -> caf::behavior { return {[](int) {}}; });
}

TEST_CASE("every session that uses a shard hears of its death") {
  Process process("/job:local/task:0", {});
  const caf::actor service = process.services().actor("shards");
  {
    caf::scoped_actor first(process.system()), second(process.system());
    const uint64_t door = use_shard(first, service);
    CHECK(use_shard(second, service) == door);
    caf::anon_send_exit(process.remote(process.task(), door), caf::exit_reason::kill);
    CHECK(hears_of_loss(first));
    CHECK(hears_of_loss(second));
  }
  process.stop();
}

// A disk whose calls block until release(), and then fail after a while.
class HeldDisk final : public Disk {
 public:
  void release() {
    if (!std::exchange(released_once_, true)) held_.set_value();
  }
  int users() const { return users_; }
  void make_dirs(const std::string&) override { hold(); }
  std::vector<std::string> list(const std::string&) override {
    return hold(), std::vector<std::string>{};
  }
  std::unique_ptr<ReadFile> open(const std::string&) override { return hold(), nullptr; }
  std::unique_ptr<WriteFile> create(const std::string&) override { return hold(), nullptr; }
  void rename(const std::string&, const std::string&) override { hold(); }
  void rename_new(const std::string&, const std::string&) override { hold(); }
  void remove(const std::string&) override { hold(); }
  void sync_dir(const std::string&) override { hold(); }
  int64_t free_bytes(const std::string&) override { return hold(), 0; }
  std::string unique() override { return hold(), ""; }

 private:
  void hold() {
    ++users_;
    released_.wait();
    for (int i = 0; i < 1'000; ++i) std::this_thread::yield();
    --users_;
    throw Error(Errc::io, "the disk was held");
  }
  std::atomic<int> users_ = 0;
  bool released_once_ = false;
  std::promise<void> held_;
  const std::shared_future<void> released_ = held_.get_future().share();
};

// A process with one shard, whose disk is held until release() or the end.
struct HeldShard {
  explicit HeldShard(HeldDisk& held) : disk(held) {
    use_shard(session, service);
    ask(SetInitial{"shared", 0, 0, 1, 0, std::string(4 * sizeof(float), 0)});
  }
  ~HeldShard() { disk.release(); }  // also when the case fails: the process waits for its disk jobs
  template <class Message>
  void ask(Message message) {
    session->request(service, kSoon, std::move(message))
        .receive([] {}, [](const caf::error& e) { FAIL(caf::to_string(e)); });
  }
  auto write(uint64_t capture) {
    ask(CaptureShard{"shared", 0, 1, 0, capture});
    WriteShard order;
    order.container = "shared";
    order.epoch = 1;
    order.capture = capture;
    order.directory = "held";
    order.name = detail::concat("00000", capture, "-step0.shard-0-of-1.safetensors");
    return session->request(service, kSoon, order);
  }

  static constexpr std::chrono::seconds kSoon{60};
  HeldDisk& disk;
  const TrainingServices services{{.disk = &disk}};
  Process process{"/job:ps/task:0", 1, {.ops = builtin_ops(), .services = &services}, {}};
  const caf::actor service = process.services().actor("shards");
  caf::scoped_actor session{process.system()};
};

TEST_CASE("who waits for a shard when it dies is told at once, also while its file is written") {
  HeldDisk disk;
  {
    HeldShard shard(disk);
    auto written = shard.write(1);
    // The capture of a step that no replica has done yet.
    auto captured =
        shard.session->request(shard.service, HeldShard::kSoon, CaptureShard{"shared", 0, 1, 5, 2});
    // The service has received both requests.
    const uint64_t door = use_shard(shard.session, shard.service);
    Process& process = shard.process;
    caf::anon_send_exit(process.remote(process.task(), door), caf::exit_reason::kill);
    const auto died = [](const caf::error& e) {
      CHECK(from_caf(e) ==
            std::pair<Errc, std::string>(Errc::peer_lost, "the shard died before it had answered"));
    };
    written.receive([](const ShardFile&) { FAIL("it was written"); }, died);
    captured.receive([] { FAIL("it was captured"); }, died);
    while (disk.users() == 0) std::this_thread::yield();
  }
  CHECK(disk.users() == 0);  // started work ends before the process does
}

TEST_CASE("a shard whose disk does not answer keeps two files for it, and refuses a third") {
  HeldDisk disk;
  HeldShard shard(disk);
  const auto held = [](const caf::error& e) {
    CHECK(from_caf(e) == std::pair<Errc, std::string>(Errc::io, "the disk was held"));
  };
  auto first = shard.write(1), second = shard.write(2);
  shard.write(3).receive(
      [](const ShardFile&) { FAIL("it was written"); },
      [](const caf::error& e) {
        CHECK(from_caf(e).first == Errc::io);
        CHECK(from_caf(e).second.find("has not taken 2 files") != std::string::npos);
      });
  disk.release();
  first.receive([](const ShardFile&) { FAIL("it was written"); }, held);
  second.receive([](const ShardFile&) { FAIL("it was written"); }, held);
  shard.write(4).receive([](const ShardFile&) { FAIL("it was written"); }, held);
}

// A shard that serves zeros, as a session in the same process has it.
struct ServingShard {
  explicit ServingShard(Process& process) : session(process.system()) {
    const caf::actor service = process.services().actor("shards");
    actor = process.remote<ShardHandle>(process.task(), use_shard(session, service));
    session
        ->request(service, std::chrono::seconds(30),
                  SetInitial{"shared", 0, 0, 1, 0, std::string(4 * sizeof(float), 0)})
        .receive([] {}, [](const caf::error& e) { FAIL(caf::to_string(e)); });
    door = caf::actor_cast<caf::strong_actor_ptr>(session);
  }
  // By a message. called() retries a direct call until the shard is idle.
  Pulled sent(const Pull& pull) {
    Pulled out;
    session->send(actor, pull);
    session->receive([&](const Pulled& m) { out = m; });
    return out;
  }
  template <class F>
  void called(const F& call) const {
    while (!call()) std::this_thread::yield();
  }
  Acknowledged pushed(int64_t step, float gradient) const {
    ShardRequest request = Push{};
    Push& push = std::get<Push>(request);
    push.step = push.sequence = step;
    push.epoch = 1;
    push.incarnation = 1;
    push.gradient = Tensor::of<float>({gradient, gradient, gradient, gradient}, {4});
    ShardActions out;
    called([&] { return local_shard(actor)->ask(request, door, out); });
    if (out.empty()) return {.code = Errc::cancelled};
    CHECK(out.size() == 1);
    return std::get<Acknowledged>(out.at(0).message);
  }
  caf::scoped_actor session;
  ShardHandle actor;
  caf::strong_actor_ptr door;
};

TEST_CASE("a shard of the process is called by who has sent it a message, while it lives") {
  Process process("/job:local/task:0", {});
  CHECK(local_shard(caf::actor_cast<ShardDoor>(process.services().actor("shards"))) == nullptr);
  {
    ServingShard shard(process);
    const Pull first{.slice = 0, .replica = 0, .step = 0, .epoch = 1, .ticket = 7};
    ShardRequest asked = first;
    ShardActions out;
    CHECK(!local_shard(shard.actor)->ask(asked, shard.door, out));
    CHECK(shard.sent(first).ticket == 7);
    shard.called([&] { return local_shard(shard.actor)->ask(asked, shard.door, out); });
    REQUIRE(out.size() == 1);
    CHECK(std::get<Pulled>(out[0].message).ticket == 7);
    CHECK(shard.pushed(0, 1).version == 1);
    CHECK(shard.pushed(1, INFINITY).code == Errc::bad_data);
    const Pulled now = shard.sent({.slice = 0, .replica = 0, .step = 1, .epoch = 1});
    CHECK(now.version == 1);
    CHECK(now.values.data<float>()[3] == -0.1f);

    caf::anon_send_exit(shard.actor, caf::exit_reason::kill);
    CHECK(hears_of_loss(shard.session));
    CHECK(!local_shard(shard.actor)->ask(asked, shard.door, out));
  }
  process.stop();
}

TEST_CASE("calls of several threads and messages to a shard are done one after the other") {
  Process process("/job:local/task:0", {.threads = 2});
  {
    ServingShard shard(process);
    const Pull newest{.slice = 0, .replica = 0, .epoch = 1, .ticket = 1};
    ShardRequest asked = newest;
    shard.sent(newest);
    std::thread other([&] {
      for (int i = 0; i < 300; ++i) {
        ShardActions out;
        shard.called([&] { return local_shard(shard.actor)->ask(asked, shard.door, out); });
        const Tensor values = std::get<Pulled>(out.at(0).message).values;
        for (const float x : values.values<float>()) CHECK(x == values.data<float>()[0]);
      }
    });
    for (int64_t step = 0; step < 300; ++step) {
      CHECK(shard.pushed(step, 1).version == step + 1);
      CHECK(shard.sent(newest).version == step + 1);
    }
    other.join();
  }
  process.stop();
}

TEST_CASE("a shard dies of what is thrown in a call as of what is thrown in a message") {
  const TrainingServices services({.on_shard = [](const std::string&, Shard& shard) {
    shard.set_applied_log([](const Shard::Applied&) { throw Error(Errc::internal, "told to"); });
  }});
  Process process("/job:ps/task:0", 1, {.ops = builtin_ops(), .services = &services}, {});
  {
    ServingShard shard(process);
    shard.sent({.slice = 0, .replica = 0, .epoch = 1});
    CHECK(shard.pushed(0, 1).code == Errc::cancelled);  // no answer
    ShardActions out;                                   // of a pull that waits for its end
    ShardRequest pull = Pull{.slice = 0, .replica = 0, .epoch = 1};
    CHECK(!local_shard(shard.actor)->ask(pull, shard.door, out));
    CHECK(hears_of_loss(shard.session));
  }
  process.stop();
}

TEST_CASE("while its actor waits for a shard no caller gets it") {
  ShardLock lock;
  REQUIRE(lock.try_lock());
  CHECK(!lock.try_lock());
  std::promise<void> checked;
  std::thread actor([&] {
    const std::lock_guard held(lock);
    checked.get_future().wait();
  });
  while (!lock.waited_for()) std::this_thread::yield();
  lock.unlock();
  CHECK(!lock.try_lock());  // the actor owns it, even before it wakes
  checked.set_value();
  actor.join();
  CHECK(lock.try_lock());
}

TEST_CASE("first values count when they have come whole and in order") {
  Process process("/job:local/task:0", {});
  const caf::actor service = process.services().actor("shards");
  {
    caf::scoped_actor session(process.system());
    use_shard(session, service);
    const auto piece = [&](int64_t offset, size_t bytes) {
      SetInitial m{.container = "shared", .epoch = 1, .byte_offset = offset};
      m.bytes.assign(bytes, 0);
      Errc out = Errc::ok;
      session->request(service, std::chrono::seconds(30), m)
          .receive([] {}, [&](const caf::error& e) { out = from_caf(e).first; });
      return out;
    };
    const auto serving = [&] {
      bool out = false;
      session->request(service, std::chrono::seconds(30), DescribeShard{"shared", 0})
          .receive([&](const ShardDescription& d) { out = d.serving; },
                   [](const caf::error& e) { FAIL(caf::to_string(e)); });
      return out;
    };
    CHECK(piece(8, 8) == Errc::invalid_argument);  // the bytes before it are missing
    CHECK(piece(0, 8) == Errc::ok);
    CHECK(piece(12, 4) == Errc::invalid_argument);
    CHECK(piece(8, 9) == Errc::invalid_argument);
    CHECK(!serving());
    CHECK(piece(0, 8) == Errc::ok);  // starts again
    CHECK(piece(8, 8) == Errc::ok);
    CHECK(serving());
  }
  process.stop();
}

TEST_CASE("a process forgets actors that have ended") {
  Process process("/job:local/task:0", {});
  const size_t before = process.occupants().actors();
  {
    caf::scoped_actor self(process.system());
    for (int i = 0; i < 100; ++i) {
      const caf::actor actor = stranger(process.system());
      process.track(actor);
      self->send_exit(actor, caf::exit_reason::user_shutdown);
      self->wait_for(actor);
    }
  }
  CHECK(process.occupants().actors() <= before + 1);
  process.stop();
}

TEST_CASE("a sender keeps its number until it is gone") {
  Process process("/job:local/task:0", {});
  {
    const caf::actor a = stranger(process.system()), b = stranger(process.system());
    const auto pointer = [](const caf::actor& x) {
      return caf::actor_cast<caf::strong_actor_ptr>(x);
    };
    Senders senders;
    const Senders::Number first = senders.number(pointer(a));
    CHECK(first.fresh);
    CHECK(first.number != 0);
    CHECK(!senders.number(pointer(a)).fresh);
    CHECK(senders.number(pointer(a)).number == first.number);
    const uint64_t other = senders.number(pointer(b)).number;
    CHECK(other != first.number);
    CHECK(*senders.find(other) == b);
    CHECK(senders.gone(a.address()) == first.number);
    CHECK(senders.gone(a.address()) == 0);
    CHECK(senders.find(first.number) == nullptr);
    CHECK(senders.number(pointer(a)).number > other);  // never its old number
    for (const caf::actor& actor : {a, b})
      caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  }
  process.stop();
}

TEST_CASE("of more senders than a shard remembers, the longest silent one is forgotten") {
  Process process("/job:local/task:0", {});
  {
    std::vector<caf::actor> actors;
    Senders senders;
    const auto number = [&](const caf::actor& actor) {
      return senders.number(caf::actor_cast<caf::strong_actor_ptr>(actor));
    };
    for (size_t i = 0; i < Senders::kMax; ++i) {
      actors.push_back(stranger(process.system()));
      CHECK(number(actors.back()).forgotten == 0);
    }
    const uint64_t second = number(actors[1]).number;
    const uint64_t first = number(actors[0]).number;  // used again: the second is silent longest
    for (size_t i = 2; i < actors.size(); ++i) number(actors[i]);
    actors.push_back(stranger(process.system()));
    CHECK(number(actors.back()).forgotten == second);
    CHECK(senders.size() == Senders::kMax);
    CHECK(senders.find(first) != nullptr);
    CHECK(senders.find(second) == nullptr);
    for (const caf::actor& actor : actors)
      caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  }
  process.stop();
}

}  // namespace
}  // namespace troupe

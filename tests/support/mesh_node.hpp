// Fixtures of the tests of meshes over loopback: an actor system, a net thread and a mesh, as one
// process has them.
#pragma once

#include <doctest/doctest.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <future>
#include <map>
#include <mutex>

#include <caf/all.hpp>
#include <caf/io/all.hpp>

#include "net/caf/caf_bridge.hpp"
#include "net/mesh/mesh.hpp"
#include "net/link/net_thread.hpp"
#include "tests/support/data_messages.hpp"

namespace troupe {

struct MeshConfig : caf::actor_system_config {
  explicit MeshConfig(Rng& rng) {
    load_network(*this, rng);
    set("scheduler.max-threads", size_t{2});
  }
};

// Keeps what comes through a door.
class MeshInbox : public caf::monitorable_actor {
 public:
  explicit MeshInbox(caf::actor_config& config) : monitorable_actor(config) {}
  void enqueue(caf::mailbox_element_ptr m, caf::execution_unit*) override {
    std::lock_guard lock(mutex);
    senders.push_back(m->sender);
    messages.push_back(m->copy_content_to_message());
    changed.notify_all();
  }
  bool wait_for(size_t count) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(20),
                            [&] { return messages.size() >= count; });
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<caf::message> messages;
  std::vector<caf::strong_actor_ptr> senders;
};

struct MeshNode : MeshListener {
  SystemRng rng;
  MeshConfig config{rng};
  caf::actor_system system{config};
  std::unique_ptr<NetThread> net = make_net_thread();
  Doors doors;
  caf::actor agent;
  std::unique_ptr<Mesh> mesh;
  std::string address;

  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, caf::actor> agents;
  std::map<std::string, std::string> addresses;  // of members that were up
  std::vector<std::string> history;              // "up NAME", "down NAME"
  std::string refusal;
  std::atomic<bool> stopped{false};

  MeshNode(const std::string& job, int task, std::vector<std::string> seeds,
           std::function<void(MeshOptions&)> tweak = {}) {
    agent = system.spawn(
        [task]() -> caf::behavior { return {[task](int x) { return x * 10 + task; }}; });
    MeshOptions options{.job = job,
                        .task = task,
                        .incarnation = 1,
                        .seeds = std::move(seeds),
                        .kinds = data_kinds()};
    if (tweak) tweak(options);
    mesh = std::make_unique<Mesh>(system, net->transport(), net->clock(), rng, doors, options);
    try {
      address = mesh->start(agent, this);
    } catch (...) {  // the actor system waits for its actors
      caf::anon_send_exit(agent, caf::exit_reason::kill);
      throw;
    }
  }
  ~MeshNode() override { stop(); }
  void stop() {
    mesh->stop();
    stopped = true;
    caf::anon_send_exit(agent, caf::exit_reason::kill);
    std::lock_guard lock(mutex);
    agents.clear();
  }
  void up(const Member& member, const caf::actor& a) override {
    CHECK(!stopped);  // a stopped mesh sends no notices
    std::lock_guard lock(mutex);
    agents[member.name()] = a;
    addresses[member.name()] = member.address;
    history.push_back("up " + member.name());
    changed.notify_all();
  }
  void down(const Member& member, const std::string&) override {
    CHECK(!stopped);
    std::lock_guard lock(mutex);
    agents.erase(member.name());
    history.push_back("down " + member.name());
    changed.notify_all();
  }
  void refused(Errc code, const std::string& reason) override {
    CHECK(code == Errc::bad_configuration);
    std::lock_guard lock(mutex);
    refusal = reason;
    changed.notify_all();
  }
  bool wait(const std::function<bool()>& done) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(20), done);
  }
  bool wait_members(size_t others) {
    return wait([&] { return agents.size() == others; });
  }
  caf::actor agent_of(const std::string& name) {
    std::lock_guard lock(mutex);
    return agents.at(name);
  }
  caf::strong_actor_ptr make_inbox() {
    caf::actor_config c;
    auto out = caf::make_actor<MeshInbox, caf::strong_actor_ptr>(system.next_actor_id(),
                                                                 system.node(), &system, c);
    doors.open(out);
    return out;
  }
};

// Compares handles by actor id and process.
inline bool same(const caf::strong_actor_ptr& a, const caf::strong_actor_ptr& b) {
  return caf::actor_cast<caf::actor>(a) == caf::actor_cast<caf::actor>(b);
}

inline MeshInbox& inbox(const caf::strong_actor_ptr& p) {
  return *static_cast<MeshInbox*>(p->get());
}

template <class M>
void send_as(const caf::strong_actor_ptr& from, const caf::strong_actor_ptr& to, M message) {
  to->enqueue(from, caf::make_message_id(), caf::make_message(std::move(message)), nullptr);
}

// Sends `words` to an address and collects the answer until the other side hangs up.
inline std::string converse(const std::string& address, const std::string& words) {
  auto net = make_net_thread();
  std::promise<std::string> done;
  std::string heard;
  char buffer[4096];
  ConnectionPtr keep;
  net->transport().dial(
      address, std::chrono::seconds(5), [&](ConnectionPtr connection, const std::string& reason) {
        if (!connection) return done.set_value("not connected: " + reason);
        keep = connection;
        connection->start(
            {[&] {
               return ConnectionHandlers::Room{std::as_writable_bytes(std::span(buffer)), {}};
             },
             [&](size_t n) { heard.append(buffer, n); }, [] {},
             [&](const std::string&) { done.set_value(heard); }});
        const std::span<const std::byte> part(reinterpret_cast<const std::byte*>(words.data()),
                                              words.size());
        connection->write(std::span(&part, 1), {});
      });
  auto future = done.get_future();
  const bool ended = future.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  CHECK(ended);
  const std::string out = ended ? future.get() : "";
  net->transport().run([&] { keep.reset(); });
  return out;
}

}  // namespace troupe

// Mesh: the links of one process to all other members of its cluster. It joins by any seed, learns
// of the other members, dials them, and says who comes and goes. It makes proxies: actors that are
// equal to actors of other processes.
//
// Owner: the process (actors/cluster/process.hpp). stop() before the actor system ends. When a peer
// dies, what was under way to it is lost; requests to it end as said at proxy().
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <caf/actor.hpp>
#include <caf/actor_control_block.hpp>
#include <caf/fwd.hpp>
#include <spdlog/logger.h>

#include "net/wire/messages.hpp"
#include "net/link/seams.hpp"

namespace troupe {

// Who waits for members of its cluster says who is missing, this often.
inline constexpr std::chrono::seconds kWaitingWord{5};
void say_waiting(spdlog::logger& log, const std::string& missing, std::chrono::nanoseconds since);

// One process of a cluster.
struct Member {
  std::string job;
  int32_t task = 0;
  uint64_t incarnation = 0;  // larger for each start of the same task
  std::string address;       // where it listens, "host:port"

  std::string name() const;  // "/job:ps/task:1"
  friend bool operator==(const Member&, const Member&) = default;
};

// Told on the net thread; must not block.
class MeshListener {
 public:
  virtual ~MeshListener() = default;
  // The member's agent can be sent to: CAF messages and proxies work both ways.
  virtual void up(const Member& member, const caf::actor& agent) = 0;
  // Its link has ended; what was under way to it is lost. A newer incarnation comes up after the
  // older one went down.
  virtual void down(const Member& member, const std::string& reason) = 0;
  // A seed refuses us for good (another cluster, other ops, our task runs already), and there is no
  // link to anybody else: whoever owns the process should end it.
  virtual void refused(Errc /*code*/, const std::string& /*reason*/) {}
};

// The actors of this process that other processes may address on the data plane, by actor id. Any
// thread. They only store and schedule in enqueue(): it is called on the net thread.
class Doors {
 public:
  void open(caf::strong_actor_ptr actor);  // replaces an earlier one of the same id
  void close(uint64_t actor_id);
  caf::strong_actor_ptr find(uint64_t actor_id) const;  // null if there is none
  void close_all();

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<uint64_t, caf::strong_actor_ptr> actors_;
};

struct MeshOptions {
  std::string cluster = "troupe";  // members of another cluster are refused
  std::string job = "worker";
  int32_t task = 0;
  uint64_t incarnation = 0;
  std::string listen = "127.0.0.1:0";
  std::vector<std::string> seeds =
      {};  // addresses of any members; those not there yet are dialled again and again
  uint64_t fingerprint = 0;  // of the op registry; members must agree
  std::string ops = {};   // that are not built in (net/wire/own_ops.hpp), to name one that differs
  bool insecure = false;  // allow listening beyond loopback without TLS
  // Host memory for arriving tensors; empty: the heap. Net thread. May throw Error(out_of_memory):
  // then the message ends as if its sender had failed with that.
  std::function<Tensor(DType, const Shape&)> allocate = {};
  std::shared_ptr<spdlog::logger> log = {};  // empty: silent
};

struct PeerStats {
  int64_t bytes_in = 0, bytes_out = 0;        // all frames
  int64_t messages_in = 0, messages_out = 0;  // of the data plane
  int64_t queued_bytes = 0;                   // waiting to be written
};

class Mesh {
 public:
  // `system` was configured by load_network() (caf_bridge.hpp). All arguments must outlive the
  // mesh.
  Mesh(caf::actor_system& system, Transport& transport, Clock& clock, Rng& rng, Doors& doors,
       MeshOptions options);
  ~Mesh();  // stop()
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  // Listens and begins to join. `agent`: the actor that other members get in up(). Returns our
  // address. Throws: Error(bad_configuration) for an address beyond loopback without `insecure`;
  // Error(io) when the port is taken.
  std::string start(const caf::actor& agent, MeshListener* listener);
  // Says goodbye and closes all links. Afterwards the listener is not called any more and proxies
  // refuse. Any thread; also twice.
  void stop();

  // Those of `tasks` that are not up. Any thread.
  std::vector<std::string> waiting_for(const std::vector<std::string>& tasks) const;
  // The members that others have told us of and that are not up yet. What a member tells of others
  // has come when it is up itself. Any thread.
  std::vector<std::string> heard_of() const;

  // A handle to the actor of that id in the process of a member: null if the member is not up. It
  // equals the remote actor's own handle. Messages of net/wire/messages.hpp travel on the data
  // plane to the peer's door of that id; the sender there is a proxy of the sender here, so that an
  // answer finds it if it has a door, too. Any thread; sending never blocks. When the peer is gone
  // or its queue is full, Push, Pull and StartStep are answered at once, from the net thread, by an
  // Acknowledged, Pulled or FinishStep with Errc::peer_lost or out_of_memory; the others are
  // dropped and counted when the peer is gone. When a value does not fit in the queue its reader
  // gets the Deliver with that error; when nothing at all fits, the link ends. Monitors of a proxy
  // fire when the peer goes down. A later link to the same incarnation gives the proxies of an
  // earlier one their way back; those of an older incarnation stay dead: ask for new ones after
  // up(). A request of any other kind is refused: those go to handles that CAF knows.
  caf::strong_actor_ptr proxy(const std::string& task, uint64_t actor_id);

  std::map<std::string, PeerStats> stats() const;  // by task. Any thread.
  int64_t dropped() const;  // messages for doors that are not there, and for peers that are gone

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

// Asks the members at `seeds` for a task number of `job` that nobody has; for processes that come
// and go, before they make a mesh. `done` is called once on the net thread, at the latest after
// `timeout`.
struct TaskRequest {
  std::string cluster;
  std::string job;
  std::vector<std::string> seeds;
  uint64_t fingerprint = 0;
  std::string ops = {};  // own_ops()
  std::chrono::milliseconds timeout{60'000};
};
void draw_task(Transport& transport, Clock& clock, Rng& rng, const TaskRequest& request,
               std::function<void(Errc, const std::string& text, int32_t task)> done);

}  // namespace troupe

// Mesh: the links of one process to all other members of its cluster. It joins through any seed,
// learns the other members from it, dials them, and reports members that come and go. It makes
// proxies: actors that compare equal to actors of other processes. When a peer dies, messages in
// flight to it are lost; its requests end as described at proxy().
//
// Owner: the process (actors/cluster/process.hpp); stop() comes before the actor system ends.
// Thread: start() on the owner's, the other functions on any; listener calls on the net thread.
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

#include "net/wire/message_kinds.hpp"
#include "net/link/liveness.hpp"
#include "net/link/secret.hpp"
#include "net/link/tls_folder.hpp"

namespace troupe {

class SegmentPool;

// A process that waits for members of its cluster logs the missing ones at this interval.
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

// Receives member events on the net thread; must not block.
class MeshListener {
 public:
  virtual ~MeshListener() = default;
  // The member's agent is reachable: CAF messages and proxies work in both directions.
  virtual void up(const Member& member, const caf::actor& agent) = 0;
  // The member's link has ended; messages in flight to it are lost. A newer incarnation comes up
  // only after the older one went down.
  virtual void down(const Member& member, const std::string& reason) = 0;
  // A seed refuses this process for good (another cluster, other ops, its task is already running),
  // and there is no link to any other member. The owner of the process should end it.
  virtual void refused(Errc /*code*/, const std::string& /*reason*/) {}
};

// Doors: the actors of this process that other processes may address on the data plane, by actor
// id. Callable on any thread. An actor's enqueue() is called on the net thread, so it must only
// store the message and schedule.
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

inline constexpr const char* kNoAddress = "none";

struct MeshOptions {
  std::string cluster = "troupe";  // members of another cluster are refused
  std::string job = "worker";
  int32_t task = 0;
  uint64_t incarnation = 0;
  std::string listen = "127.0.0.1:0";
  // The address that other members dial; empty: the one that it listens on. kNoAddress: no member
  // dials this process, and it dials all of them.
  std::string announce = {};
  std::vector<std::string> seeds =
      {};  // addresses of any members; unreachable ones are dialled again and again
  uint64_t fingerprint = 0;  // hash of the op registry; equal in all members
  // The ops that are not built in (net/wire/own_ops.hpp), to name a differing one.
  std::string ops = {};
  // The messages of the data plane; null: none.
  std::shared_ptr<const MessageKinds> kinds = {};
  bool insecure = false;  // allows listening beyond loopback without TLS
  // Allocates host memory for arriving tensors; empty: the heap. Called on the net thread. May
  // throw Error(out_of_memory): then the message arrives as if its sender had failed with that
  // error.
  std::function<Tensor(DType, const Shape&)> allocate = {};
  // Memory that members on this machine read in place; null: they get bytes.
  SegmentPool* segments = nullptr;
  // Bytes of the tensors that arrive at one time over all links; a larger sum fails as above. One
  // tensor alone always may. 0: half of the machine's memory, and 1 GiB at least.
  int64_t arriving_bytes_max = 0;
  std::shared_ptr<spdlog::logger> log = {};  // empty: silent
  // A member that is silent for longer is down. Each process judges by its own.
  std::chrono::milliseconds silence{kSilence};
  // Members prove to each other that they know it; null: any process may be a member.
  std::shared_ptr<const Secret> secret = {};
  // Encrypts all links; null: they are plain.
  std::shared_ptr<TlsFiles> tls = {};
};

struct PeerStats {
  int64_t bytes_in = 0, bytes_out = 0;        // of all frames
  int64_t messages_in = 0, messages_out = 0;  // of the data plane
  int64_t queued_bytes = 0;                   // waiting to be written
  bool local = false;                         // by a local socket
};

class Mesh {
 public:
  // `system` was configured by load_network() (caf_bridge.hpp). All arguments must outlive the
  // mesh.
  Mesh(caf::actor_system& system, Transport& transport, Clock& clock, Rng& rng, Doors& doors,
       MeshOptions options);
  ~Mesh();  // calls stop()
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  // Listens and begins to join. `agent`: the actor that other members receive in up(). Returns this
  // process's address. Throws: Error(bad_configuration) for an address beyond loopback without
  // TLS or `insecure`; Error(io) if the port is taken.
  std::string start(const caf::actor& agent, MeshListener* listener);
  // Says goodbye and closes all links. Afterwards the listener gets no more calls and proxies
  // refuse. Callable on any thread, also twice.
  void stop();

  // The members of `tasks` that are not up. Any thread.
  std::vector<std::string> waiting_for(const std::vector<std::string>& tasks) const;
  // The members that other members have named and that are not up yet. When a member is up, its
  // list of other members has arrived. Any thread.
  std::vector<std::string> heard_of() const;

  // A handle to the actor with that id in a member's process; null if the member is not up. It
  // equals the remote actor's own handle. Any thread; sending never blocks.
  //
  // Messages of MeshOptions::kinds travel on the data plane to the peer's door with that id. The
  // sender there is a proxy of the sender here, so an answer reaches the sender if it has a door,
  // too. A request of any other kind is refused: send those to handles that CAF knows.
  //
  // If the peer is gone or its queue is full, a message that has a refusal (message_kinds.hpp) is
  // answered by it at once, from the net thread, with Errc::peer_lost or out_of_memory. The other
  // messages are dropped and counted if the peer is gone. If a message does not fit in the queue,
  // its reader gets the failed form; if it has none, or not even that fits, the link ends.
  //
  // Monitors of a proxy fire when the peer goes down. A later link to the same incarnation revives
  // the proxies of the earlier link. Proxies of an older incarnation stay dead: ask for new ones
  // after up().
  caf::strong_actor_ptr proxy(const std::string& task, uint64_t actor_id);

  std::map<std::string, PeerStats> stats() const;  // by task; any thread
  int64_t dropped() const;                         // messages for missing doors and for lost peers

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

// Asks the members at `seeds` for a free task number of `job`, for processes that come and go; call
// it before making a mesh. Calls `done` once on the net thread, after `timeout` at the latest.
struct TaskRequest {
  std::string cluster;
  std::string job;
  std::vector<std::string> seeds;
  uint64_t fingerprint = 0;
  std::string ops = {};  // from own_ops()
  std::chrono::milliseconds timeout{60'000};
  std::shared_ptr<const Secret> secret = {};  // of the cluster; null: none
  std::shared_ptr<TlsFiles> tls = {};         // null: links of the cluster are plain
};
void draw_task(Transport& transport, Clock& clock, Rng& rng, const TaskRequest& request,
               std::function<void(Errc, const std::string& text, int32_t task)> done);

}  // namespace troupe

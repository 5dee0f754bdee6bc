// Builds a process from its options, and ends it in order.
#include "actors/cluster/process.hpp"

#include <spdlog/sinks/base_sink.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "actors/async/messages.hpp"
#include "actors/async/option_range.hpp"
#include "actors/cluster/log_lines.hpp"
#include "graph/base/fail_point.hpp"
#include "graph/device_name.hpp"
#include "net/link/local_socket.hpp"
#include "net/link/tls.hpp"
#include "net/wire/own_ops.hpp"

namespace troupe {
namespace {

// Passes each line to the program's own log function.
class SinkAdapter final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit SinkAdapter(LogSink sink) : sink_(std::move(sink)) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    sink_(level_of(message), text_of(message));
  }
  void flush_() override {}

 private:
  const LogSink sink_;
};

std::shared_ptr<spdlog::logger> make_log(const ProcessOptions& options, const std::string& task,
                                         bool apart) {
  auto log = std::make_shared<spdlog::logger>(task);  // no sink: prints nothing
  if (options.log && apart) log->sinks().push_back(std::make_shared<LogLines>(options.log));
  if (options.log && !apart) log->sinks().push_back(std::make_shared<SinkAdapter>(options.log));
  log->set_level(static_cast<spdlog::level::level_enum>(options.log_level));
  return log;
}

// Throws: Error(invalid_argument) for a number out of range. The upper bounds are far above any
// real machine, and low enough that the tables of that size fit in memory.
ProcessOptions checked(ProcessOptions o) {
  want_range("ProcessOptions::threads", o.threads, 0, 4096, "0 (one per core) to 4096");
  want_range("ProcessOptions::cpu_devices", o.cpu_devices, 1, 1024, "1 to 1024");
  want_range("ProcessOptions::shadow_devices", o.shadow_devices, 0, 1024, "0 to 1024");
  want_least("ProcessOptions::memory_budget_bytes", o.memory_budget_bytes, 1,
             "at least 1 byte; for no limit give more than the machine has");
  want_range("ProcessOptions::parameter_shards", o.parameter_shards, 0, 65'536,
             "0 (one per task that holds any) to 65536");
  return o;
}

}  // namespace

uint64_t Process::draw_incarnation() {
  // Grows with time, so that a restarted process is always the newer one; the low bits separate two
  // that start at the same moment.
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const uint64_t micros =
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
  return micros << 8 | (std::random_device{}() & 0xff);
}

Process::Process(bool log_apart, std::string task, uint64_t incarnation, ProcessOptions options)
    : task_(std::move(task)),
      incarnation_(incarnation),
      options_(checked(std::move(options))),
      log_(make_log(options_, task_, log_apart)),
      tracer_(std::make_shared<Tracer>(task_, static_cast<int64_t>(incarnation_ & 0xffffff))),
      lanes_(options_.threads),
      devices_(task_, options_),
      watch_(std::make_shared<Watch>()) {
  arm_fail_points(task_);
}

Process::Process(std::string task, ProcessOptions options)
    : Process(false, std::move(task), draw_incarnation(), std::move(options)) {
  host_ = std::make_unique<ActorHost>(lanes_.count(), *options_.services);
  make_actors({}, kLease);
}

Process::Process(std::string task, ProcessOptions options, caf::actor_system& system)
    : Process(false, std::move(task), draw_incarnation(), std::move(options)) {
  host_ = std::make_unique<ActorHost>(system);
  make_actors({}, kLease);
}

Process::Process(std::string task, uint64_t incarnation, ProcessOptions options,
                 ClusterOptions cluster, ProcessSeams seams)
    : Process(!seams.configure, std::move(task), incarnation, std::move(options)) {
  TROUPE_CHECK(options_.ops, "a member of a cluster without ops: ", task_);
  host_ = std::make_unique<ActorHost>(lanes_.count(), *options_.services, std::move(seams));
  host_->on_exception([log = log_](const std::string& text) {
    log->error("an exception on the network thread, its work is lost: error={}", text);
  });
  const DeviceName name = parse_device_name(task_);
  MeshOptions mesh;
  mesh.cluster = cluster.cluster;
  mesh.job = *name.job;
  mesh.task = static_cast<int32_t>(*name.task);
  mesh.incarnation = incarnation_;
  mesh.listen = cluster.listen;
  mesh.announce = cluster.announce;
  mesh.seeds = cluster.seeds;
  mesh.fingerprint = options_.ops->fingerprint();
  mesh.ops = own_ops(*options_.ops);
  mesh.insecure = cluster.insecure;
  mesh.kinds = host_->kinds();
  mesh.log = log_;
  mesh.silence = cluster.silence;
  if (!cluster.secret.empty())
    mesh.secret = std::make_shared<const Secret>(std::move(cluster.secret), host_->rng());
  if (cluster.tls) {
    if (!simulated()) cluster.tls->watch(log_);
    mesh.tls = std::move(cluster.tls);
  }
  mesh.segments = local_sockets() == LocalSockets::in_place ? cpu().segments() : nullptr;
  mesh.allocate = [memory = &cpu().memory()](DType dtype, const Shape& shape) {
    fail_point(FailPoint::memory_for_message);
    return memory->make(dtype, shape);
  };
  mesh_ = std::make_unique<Mesh>(system(), host_->transport(), host_->clock(), host_->rng(), doors_,
                                 std::move(mesh));
  make_actors(cluster.on_failure, cluster.lease);
}

void Process::make_actors(const std::function<void(Errc code, const std::string& text)>& on_failure,
                          std::chrono::milliseconds lease) {
  sessions_.reset(new Sessions{{lease, system().node()}, {}});
  lanes_.begin(system(), tracer_, /*helpers=*/!simulated());
  const auto device_ended = [this, watch = watch_, on_failure](Device& device,
                                                               const caf::error& reason) {
    std::lock_guard lock(watch->mutex);
    if (watch->stopped) return;
    device.lose(reason.category() == caf::atom("troupe")
                    ? from_caf(reason).second
                    : "its actor has ended (" + caf::to_string(reason) + ")");
    log_->error("a device is lost: device={} reason={}", device.name(), device.loss());
    if (on_failure) on_failure(Errc::device_lost, device_lost(device).what());
  };
  for (const caf::actor& actor : devices_.begin(system(), device_ended)) track(actor);
  services_ = services_factory().make_services(*this);
  agent_ = spawn_agent(*this);
  sessions_->agent = agent_.address();
  track(agent_);
  // The process ends with its agent, for any reason.
  caf::actor_cast<caf::abstract_actor*>(agent_)->attach_functor(
      [this, watch = watch_, on_failure](const caf::error& reason) {
        std::lock_guard lock(watch->mutex);
        if (watch->stopped) return;
        const std::string text = from_caf(reason).second;
        log_->error("the agent died: reason={}", text);
        if (on_failure) on_failure(Errc::internal, task_ + " lost its agent: " + text);
      });
  open_door(caf::actor_cast<caf::strong_actor_ptr>(agent_));
}

Process::~Process() { stop(); }

std::string Process::start(MeshListener* listener) {
  return mesh_->start(caf::actor_cast<caf::actor>(agent_), listener);
}

void Process::stop() {
  {
    std::lock_guard lock(watch_->mutex);
    if (std::exchange(watch_->stopped, true)) return;
  }
  if (!services_) {  // the constructor has thrown
    occupants_.end_actors();
    devices_.end();
    return;
  }
  if (mesh_) mesh_->stop();
  services_->stop();
  std::vector<caf::actor> actors = occupants_.end_actors();
  agent_ = nullptr;
  if (simulated()) {  // the simulation's scheduler runs them to their end
    devices_.end();
    return;
  }
  if (host_->owns_system()) {
    actors.clear();
    system().await_all_actors_done();
  } else {
    caf::scoped_actor self(system());
    for (const caf::actor& actor : actors) self->wait_for(actor);
  }
  // Running kernels use members that are destroyed next. Their steps were cancelled when the actors
  // that own them ended. The process gives up on a kernel that does not end.
  constexpr std::chrono::seconds kKernelsMax{30};
  if (const int64_t firing = occupants_.await_firing(kKernelsMax))
    log_->error("kernels do not end, and the process goes without them: graphs={}", firing);
  devices_.end();
  services_.reset();
  mesh_.reset();
  host_->end_network();  // CAF waits for threads that have called it
  doors_.close_all();    // actor handles must not outlive the system; lanes may still be closing
                         // doors
  log_->flush();         // before the program's sink may go
}

caf::strong_actor_ptr Process::find(const std::string& task, uint64_t actor_id) {
  if (task == task_) return doors_.find(actor_id);
  return mesh_ ? mesh_->proxy(task, actor_id) : nullptr;
}

void Process::open_door(const caf::strong_actor_ptr& actor) { doors_.open(actor); }

void Process::close_door(uint64_t actor_id) { doors_.close(actor_id); }

// The end of the link may have been looked at before the message that came over it.
void Process::hold(uint64_t session, const caf::node_id& by, bool values) {
  leases().hold(session, by, system().clock().now(), values);
  if (!leases().any_away()) return;
  if (const auto agent = caf::actor_cast<caf::actor>(sessions_->agent))
    caf::anon_send(agent, caf::tick_atom_v);
}

void Process::peer_up(const Member& member, const caf::actor& agent) {
  leases().met(member.name(), member.incarnation, agent.node());
  departures().forget(member.name());
  caf::anon_send(caf::actor_cast<caf::actor>(agent_), caf::tick_atom_v);
}

void Process::peer_down(const Member& member, const std::string& reason) {
  leases().lost(member.name(), system().clock().now());
  departures().forget(member.name());
  services_->peer_down(member.name(), reason);
  caf::anon_send(agent_, LinkLost{member.name(), reason});
}

}  // namespace troupe

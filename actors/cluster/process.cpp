// Builds a process from its options, checks the system's limits for it, and ends it in order.
#include "actors/cluster/process.hpp"

#include <spdlog/sinks/base_sink.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <random>
#include <system_error>
#include <thread>
#include <vector>

#include "actors/cluster/lane_scheduler.hpp"
#include "actors/async/messages.hpp"
#include "actors/async/step_messages.hpp"
#include "actors/async/option_range.hpp"
#include "actors/cluster/worker.hpp"
#include "devices/threads/lanes.hpp"
#include "graph/device_name.hpp"
#include "net/caf/caf_bridge.hpp"
#include "net/wire/own_ops.hpp"

namespace troupe {
namespace {

// Passes each line to the program's own log function.
class SinkAdapter final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit SinkAdapter(LogSink sink) : sink_(std::move(sink)) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const int level = std::min<int>(message.level, static_cast<int>(LogLevel::error));
    sink_(static_cast<LogLevel>(level),
          std::string(message.payload.data(), message.payload.size()));
  }
  void flush_() override {}

 private:
  const LogSink sink_;
};

std::shared_ptr<spdlog::logger> make_log(const ProcessOptions& options, const std::string& task) {
  auto log = options.log ? std::make_shared<spdlog::logger>(
                               task, std::make_shared<SinkAdapter>(options.log))
                         : std::make_shared<spdlog::logger>(task);  // no sink: prints nothing
  log->set_level(static_cast<spdlog::level::level_enum>(options.log_level));
  return log;
}

// Throws: Error(invalid_argument) for a number out of range. The upper bounds are far above any
// real machine, and low enough that the tables of that size fit in memory.
const ProcessOptions& checked(const ProcessOptions& o) {
  want_range("ProcessOptions::threads", o.threads, 0, 4096, "0 (one per core) to 4096");
  want_range("ProcessOptions::cpu_devices", o.cpu_devices, 1, 1024, "1 to 1024");
  want_range("ProcessOptions::shadow_devices", o.shadow_devices, 0, 1024, "0 to 1024");
  want_least("ProcessOptions::memory_budget_bytes", o.memory_budget_bytes, 1,
             "at least 1 byte; for no limit give more than the machine has");
  want_range("ProcessOptions::parameter_shards", o.parameter_shards, 0, 65'536,
             "0 (one per task that holds any) to 65536");
  return o;
}

int lanes_of(const ProcessOptions& options) {
  if (options.threads > 0) return options.threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// Throws: Error(bad_configuration) unless the system allows this many lanes and the other threads
// of a process. CAF's constructor does not expect that a thread cannot be made: it would hang or
// abort.
void want_threads(int lanes) {
  constexpr int kOthers = 6;  // CAF's clock and network, the link, the disk, waiting callers
  const int wanted = lanes + kOthers;
  std::atomic<bool> end{false};
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(wanted));
  std::string refusal;
  try {
    for (int i = 0; i < wanted; ++i) threads.emplace_back([&end] { end.wait(false); });
  } catch (const std::system_error& e) {
    refusal = e.code().message();
  }
  end = true;
  end.notify_all();
  for (std::thread& thread : threads) thread.join();
  if (!refusal.empty())
    throw Error(Errc::bad_configuration, "the system lets this process start ", threads.size(),
                " threads more, it wants ", wanted, " for ", lanes, " lanes: ", refusal,
                "; ask for fewer threads, or raise the limits (ulimit -u, ulimit -v, the pids of "
                "a container)");
}

// Throws: Error(bad_configuration) unless a limit of this process is at least `wanted`. Checked
// early, as later failures come where the process cannot go on: in CAF's threads, or while a link
// is opened.
void want_limit(decltype(RLIMIT_AS) limit, rlim_t wanted, rlim_t unit, const char* what,
                const std::string& remedy) {
  rlimit now{};
  if (getrlimit(limit, &now) != 0 || now.rlim_cur == RLIM_INFINITY || now.rlim_cur >= wanted)
    return;
  throw Error(Errc::bad_configuration, "the limits of this process allow it ", now.rlim_cur / unit,
              " ", what, ", it wants at least ", wanted / unit, "; ", remedy);
}

// Stacks and heaps of threads reserve address space, most of which stays unused.
void want_address_space(int lanes) {
  constexpr rlim_t kMiB = 1 << 20, kLeast = 512, kLane = 8;
  want_limit(RLIMIT_AS, (kLeast + kLane * static_cast<rlim_t>(lanes)) * kMiB, kMiB,
             "MiB of address space", "raise that limit (ulimit -v)");
}

// For a member of a cluster: a socket for each other member, the files of checkpoints, and its own
// files.
void want_files() {
  constexpr rlim_t kLeast = 64;
  want_limit(RLIMIT_NOFILE, kLeast, 1, "open files and sockets",
             "raise that limit (ulimit -n); each other member of the cluster takes one");
}

// Helps with the running op, on the lane that takes it. One object may be in the scheduler's queues
// several times.
class IdleLane final : public caf::resumable, public caf::ref_counted {
 public:
  IdleLane(std::weak_ptr<Lanes> lanes, std::shared_ptr<Tracer> tracer)
      : lanes_(std::move(lanes)), tracer_(std::move(tracer)) {}
  resume_result resume(caf::execution_unit*, size_t) override {
    const auto lanes = lanes_.lock();
    if (!lanes) return awaiting_message;
    const int64_t begin = tracer_->on() ? Tracer::now_ns() : 0;
    lanes->help();
    if (!begin) return awaiting_message;
    const int64_t end = Tracer::now_ns();
    if (end - begin >= kJobSeenNs)  // else it came too late
      tracer_->record({"job", "jobs of a kernel on another thread", begin, end});
    return awaiting_message;
  }
  subtype_t subtype() const override { return function_object; }
  void intrusive_ptr_add_ref_impl() override { ref(); }
  void intrusive_ptr_release_impl() override { deref(); }

 private:
  static constexpr int64_t kJobSeenNs = 2'000;
  const std::weak_ptr<Lanes> lanes_;  // a helper may run after the process has gone
  const std::shared_ptr<Tracer> tracer_;
};

std::shared_ptr<const Registry> ops_of(const ProcessOptions& options) {
  return options.ops ? options.ops : builtin_ops();
}

}  // namespace

struct Process::Config : caf::actor_system_config {
  Config(int lanes, const ServicesFactory& services) {
    set("scheduler.max-threads", static_cast<size_t>(lanes));
    // An actor with a long mailbox yields its lane from time to time, so that the messages it
    // deferred are sent.
    set("scheduler.max-throughput", size_t{16});
    set("logger.verbosity", caf::atom("quiet"));
    add_control_messages(*this);
    add_step_messages(*kinds);
    services.add_messages(*this, *kinds);
  }
  const std::shared_ptr<MessageKinds> kinds = std::make_shared<MessageKinds>();
};

uint64_t Process::draw_incarnation() {
  // Grows with time, so that a restarted process is always the newer one; the low bits separate two
  // that start at the same moment.
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const uint64_t micros =
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
  return micros << 8 | (std::random_device{}() & 0xff);
}

Process::Process(std::string task, ProcessOptions options)
    : task_(std::move(task)),
      incarnation_(draw_incarnation()),
      ops_(ops_of(checked(options))),
      lanes_(lanes_of(options)),
      passes_(options.passes),
      services_factory_(*options.services),
      log_(make_log(options, task_)),
      tracer_(std::make_shared<Tracer>(task_, static_cast<int64_t>(incarnation_ & 0xffffff))),
      config_(std::make_unique<Config>(lanes_, services_factory_)) {
  config_->load<LaneScheduler>();
  make_devices(options);
  want_threads(lanes_);
  want_address_space(lanes_);
  owned_system_ = std::make_unique<caf::actor_system>(*config_);
  system_ = owned_system_.get();
  doors_ = std::make_unique<Doors>();
  make_actors();
}

Process::Process(std::string task, ProcessOptions options, caf::actor_system& system)
    : task_(std::move(task)),
      incarnation_(draw_incarnation()),
      ops_(ops_of(checked(options))),
      lanes_(lanes_of(options)),
      passes_(options.passes),
      services_factory_(*options.services),
      log_(make_log(options, task_)),
      tracer_(std::make_shared<Tracer>(task_, static_cast<int64_t>(incarnation_ & 0xffffff))),
      system_(&system) {
  make_devices(options);
  doors_ = std::make_unique<Doors>();
  make_actors();
}

Process::Process(std::string task, uint64_t incarnation, ProcessOptions options,
                 ClusterOptions cluster, ProcessSeams seams)
    : task_(std::move(task)),
      incarnation_(incarnation),
      ops_(ops_of(checked(options))),
      lanes_(lanes_of(options)),
      passes_(options.passes),
      services_factory_(*options.services),
      log_(make_log(options, task_)),
      tracer_(std::make_shared<Tracer>(task_, static_cast<int64_t>(incarnation_ & 0xffffff))),
      net_(std::move(seams.net)),
      system_rng_(std::make_unique<SystemRng>()),
      config_(std::make_unique<Config>(lanes_, services_factory_)),
      simulated_(seams.configure != nullptr) {
  if (!seams.configure) {
    want_files();
    want_threads(lanes_);
    want_address_space(lanes_);
  }
  if (!seams.transport && !net_) net_ = make_net_thread();
  Transport& transport = seams.transport ? *seams.transport : net_->transport();
  Clock& clock = seams.clock ? *seams.clock : net_->clock();
  Rng& rng = seams.rng ? *seams.rng : *system_rng_;
  if (seams.configure) {
    seams.configure(*config_);
  } else {
    config_->load<LaneScheduler>();
    load_network(*config_, rng);
  }
  make_devices(options);
  owned_system_ = std::make_unique<caf::actor_system>(*config_);
  system_ = owned_system_.get();
  if (seams.configure) system_->await_actors_before_shutdown(false);
  doors_ = std::make_unique<Doors>();
  const DeviceName name = parse_device_name(task_);
  MeshOptions mesh;
  mesh.cluster = cluster.cluster;
  mesh.job = *name.job;
  mesh.task = static_cast<int32_t>(*name.task);
  mesh.incarnation = incarnation_;
  mesh.listen = cluster.listen;
  mesh.seeds = cluster.seeds;
  mesh.fingerprint = ops_->fingerprint();
  mesh.ops = own_ops(*ops_);
  mesh.insecure = cluster.insecure;
  mesh.kinds = config_->kinds;
  mesh.log = log_;
  mesh.allocate = [memory = &cpu().memory()](DType dtype, const Shape& shape) {
    return memory->make(dtype, shape);
  };
  mesh_ = std::make_unique<Mesh>(*system_, transport, clock, rng, *doors_, std::move(mesh));
  make_actors();
}

// One helper fewer than there are lanes: the thread that runs the op is a lane, too.
void Process::make_op_lanes() {
  if (simulated_ || lanes_ < 2) {
    op_lanes_ = std::make_shared<Lanes>();
    return;
  }
  struct Asked {
    caf::intrusive_ptr<IdleLane> helper;
  };
  const auto asked = std::make_shared<Asked>();
  const auto ask = [asked, system = system_](int n) {
    for (int i = 0; i < n; ++i) {
      asked->helper->ref();  // the scheduler's reference
      system->scheduler().enqueue(asked->helper.get());
    }
  };
  // An actor system that was passed in has another scheduler.
  if (auto* lanes = dynamic_cast<LaneScheduler*>(&system_->scheduler())) cores_ = lanes->cores();
  op_lanes_ = std::make_shared<Lanes>(lanes_ - 1, ask, cores_);
  asked->helper = caf::make_counted<IdleLane>(op_lanes_, tracer_);
}

void Process::make_actors() {
  make_op_lanes();
  for (const auto& device : devices_) {
    device_actors_.push_back(spawn_device(*system_, *device));
    track(caf::actor_cast<caf::actor>(device_actors_.back()));
  }
  services_ = services_factory_.make_services(*this);
  agent_ = spawn_worker(*this);
  track(agent_);
  // The process ends with its agent, for any reason.
  caf::actor_cast<caf::abstract_actor*>(agent_)->attach_functor([this](const caf::error& reason) {
    if (stopped_) return;
    const std::string text = from_caf(reason).second;
    log_->error("the worker actor died: reason={}", text);
    if (on_failure) on_failure(text);
  });
  open_door(caf::actor_cast<caf::strong_actor_ptr>(agent_));
}

void Process::track(const caf::actor& actor) {
  std::lock_guard lock(mutex_);
  std::erase_if(tracked_, [](const caf::actor& a) {  // actors that have ended need no waiting
    return caf::actor_cast<caf::abstract_actor*>(a)->getf(caf::abstract_actor::is_terminated_flag);
  });
  tracked_.push_back(actor);
}
size_t Process::tracked() const {
  std::lock_guard lock(mutex_);
  return tracked_.size();
}

caf::actor Process::device_actor(const std::string& name) const {
  for (size_t i = 0; i < devices_.size(); ++i)
    if (i < device_actors_.size() && devices_[i]->name() == name)
      return caf::actor_cast<caf::actor>(device_actors_[i]);
  return {};
}

Process::~Process() { stop(); }

std::string Process::start(MeshListener* listener) { return mesh_->start(agent_, listener); }

void Process::stop() {
  if (stopped_.exchange(true)) return;
  if (mesh_) mesh_->stop();
  services_->stop();
  std::vector<caf::actor> tracked;
  {
    std::lock_guard lock(mutex_);
    tracked.swap(tracked_);
  }
  for (const caf::actor& actor : tracked)
    caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  agent_ = nullptr;
  if (simulated_) {  // the simulation's scheduler runs them to their end
    device_actors_.clear();
    return;
  }
  if (owned_system_) {
    tracked.clear();
    owned_system_->await_all_actors_done();
  } else {
    caf::scoped_actor self(*system_);
    for (const caf::actor& actor : tracked) self->wait_for(actor);
  }
  await_firing();
  device_actors_.clear();
  services_.reset();
  mesh_.reset();
  net_.reset();         // CAF waits for threads that have called it
  doors_->close_all();  // actor handles must not outlive the system; lanes may still be closing
                        // doors
}

// Waits for running kernels, as they use members that are destroyed next. The steps were cancelled
// when the actors that own them ended. Gives up on a kernel that does not end.
void Process::await_firing() {
  constexpr std::chrono::seconds kKernelsMax{30};
  std::unique_lock lock(mutex_);
  if (!none_fires_.wait_for(lock, kKernelsMax, [this] { return firing_ == 0; }))
    log_->error("kernels do not end, and the process goes without them: graphs={}", firing_);
}

Process::Firing::Firing(Process& process) : process_(process) {
  std::lock_guard lock(process_.mutex_);
  ++process_.firing_;
}

Process::Firing::~Firing() {
  std::lock_guard lock(process_.mutex_);
  if (--process_.firing_ == 0) process_.none_fires_.notify_all();
}

caf::actor Process::remote(const std::string& task, uint64_t actor_id) {
  caf::strong_actor_ptr found;
  if (task == task_) {
    found = doors_->find(actor_id);
  } else if (mesh_) {
    found = mesh_->proxy(task, actor_id);
  }
  return caf::actor_cast<caf::actor>(found);
}

void Process::open_door(const caf::strong_actor_ptr& actor) { doors_->open(actor); }

void Process::close_door(uint64_t actor_id) { doors_->close(actor_id); }

void Process::peer_down(const Member& member, const std::string& reason) {
  services_->peer_down(member.name(), reason);
  caf::anon_send(agent_, LinkLost{member.name(), reason});
}

void Process::make_devices(const ProcessOptions& options) {
  const auto name = [&](const char* kind, int i) {
    return detail::concat(task_, "/device:", kind, ":", i);
  };
  for (int i = 0; i < options.cpu_devices; ++i)
    devices_.push_back(make_cpu_device(name("cpu", i), options.memory_budget_bytes));
  for (int i = 0; i < options.shadow_devices; ++i)
    devices_.push_back(make_shadow_device(name("shadow", i), options.memory_budget_bytes));
  if (options.cuda)
    for (int i = 0; i < cuda_device_count(); ++i)
      devices_.push_back(make_cuda_device(name("cuda", i), i, options.memory_budget_bytes));
}

Device* Process::device(const std::string& name) const {
  for (const auto& device : devices_)
    if (device->name() == name) return device.get();
  return nullptr;
}

}  // namespace troupe

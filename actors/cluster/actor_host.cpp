// Makes an actor system, after a check of the system's limits.
#include "actors/cluster/actor_host.hpp"

#include <sys/resource.h>

#include <atomic>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "actors/async/messages.hpp"
#include "actors/async/step_messages.hpp"
#include "actors/cluster/lane_scheduler.hpp"
#include "net/caf/caf_bridge.hpp"

namespace troupe {
namespace {

// Throws: Error(bad_configuration) unless the system allows this many lanes and the other threads
// of a process. CAF's constructor does not expect that a thread cannot be made: it would hang or
// abort.
void want_threads(int lanes) {
  // CAF's clock and network, the link, two of the disk, log lines, callbacks, waiting callers
  constexpr int kOthers = 9;
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

struct Config : caf::actor_system_config {
  Config(int lanes, const ServicesFactory& services, MessageKinds& kinds) {
    set("scheduler.max-threads", static_cast<size_t>(lanes));
    // An actor with a long mailbox yields its lane from time to time, so that the messages it
    // deferred are sent.
    set("scheduler.max-throughput", size_t{16});
    set("logger.verbosity", caf::atom("quiet"));
    add_control_messages(*this);
    add_step_messages(kinds);
    services.add_messages(*this, kinds);
  }
};

}  // namespace

ActorHost::ActorHost(int lanes, const ServicesFactory& services)
    : config_(std::make_unique<Config>(lanes, services, *kinds_)) {
  config_->load<LaneScheduler>();
  want_threads(lanes);
  want_address_space(lanes);
  owned_system_ = std::make_unique<caf::actor_system>(*config_);
  system_ = owned_system_.get();
}

ActorHost::ActorHost(int lanes, const ServicesFactory& services, ProcessSeams seams)
    : net_(std::move(seams.net)),
      system_rng_(std::make_unique<SystemRng>()),
      config_(std::make_unique<Config>(lanes, services, *kinds_)),
      simulated_(seams.configure != nullptr) {
  if (!simulated_) {
    want_files();
    want_threads(lanes);
    want_address_space(lanes);
  }
  if (!seams.transport && !net_) net_ = make_net_thread();
  transport_ = seams.transport ? seams.transport : &net_->transport();
  clock_ = seams.clock ? seams.clock : &net_->clock();
  rng_ = seams.rng ? seams.rng : system_rng_.get();
  if (simulated_) {
    seams.configure(*config_);
  } else {
    config_->load<LaneScheduler>();
    load_network(*config_, *rng_);
  }
  owned_system_ = std::make_unique<caf::actor_system>(*config_);
  system_ = owned_system_.get();
  if (simulated_) system_->await_actors_before_shutdown(false);
}

ActorHost::~ActorHost() = default;

}  // namespace troupe

// run_node(), a process of a cluster that serves until it is told to stop, and draw_task().
#include "troupe/cluster.hpp"

#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include <caf/all.hpp>

#include "actors/async/joined.hpp"
#include "actors/async/option_range.hpp"
#include "actors/cluster/process.hpp"
#include "net/wire/address.hpp"
#include "net/wire/own_ops.hpp"

namespace troupe {
namespace {

constexpr std::chrono::milliseconds kStopPoll{
    50};  // a signal handler cannot wake a condition variable

// Between two questions to programs, and the longest wait for an answer.
constexpr std::chrono::milliseconds kLeavePoll{50}, kLeaveAnswer{1000};

// The first reason for a node to end without being asked to. Thread: any.
class Ending {
 public:
  void tell(Errc code, const std::string& text) {
    std::lock_guard lock(mutex_);
    if (!told_) told_ = {code, text};
  }
  std::optional<std::pair<Errc, std::string>> told() const {
    std::lock_guard lock(mutex_);
    return told_;
  }

 private:
  mutable std::mutex mutex_;  // guards told_
  std::optional<std::pair<Errc, std::string>> told_;
};

class NodeListener final : public MeshListener {
 public:
  NodeListener(Process& process, Ending& ending) : process_(process), ending_(ending) {}
  void up(const Member& member, const caf::actor& agent) override {
    process_.peer_up(member, agent);
    if (member.job != "client") return;
    std::lock_guard lock(mutex_);
    programs_[member.name()] = caf::actor_cast<Agent>(agent);
  }
  void down(const Member& member, const std::string& reason) override {
    process_.peer_down(member, reason);
    std::lock_guard lock(mutex_);
    programs_.erase(member.name());
  }
  // The agents of the programs that are there.
  std::map<std::string, Agent> programs() const {
    std::lock_guard lock(mutex_);
    return programs_;
  }
  void refused(Errc code, const std::string& reason) override {
    ending_.tell(code, "the cluster refused " + process_.task() + ": " + reason);
  }

 private:
  Process& process_;
  Ending& ending_;
  mutable std::mutex mutex_;  // guards programs_
  std::map<std::string, Agent> programs_;
};

// Tells programs that this node is about to end, until none of them wants it to wait, `at_once` is
// set, or the time is over.
void drain(Process& process, const NodeListener& listener, const NodeOptions& options) {
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  const auto hurries = [&] { return options.at_once && *options.at_once; };
  caf::scoped_actor self(process.system());
  for (bool waits = true, told = false; waits && !hurries();) {
    waits = false;
    for (const auto& [task, agent] : listener.programs())
      self->request(agent, kLeaveAnswer, Leave{})
          .receive([&](const Left& m) { waits |= m.waits; }, [](const caf::error&) {});
    const auto since = Clock::now() - began;
    if (waits && !std::exchange(told, true))
      process.log()->info("leaving when replicas have moved to other processes: task={}",
                          process.task());
    if (waits && since >= options.drain) {
      process.log()->warn("leaving, though replicas have not moved: task={} waited_s={}",
                          process.task(),
                          std::chrono::duration_cast<std::chrono::seconds>(since).count());
      return;
    }
    if (waits) std::this_thread::sleep_for(kLeavePoll);
  }
}

// Calls `beat` periodically on the network thread, until it is destroyed.
class Pulse {
 public:
  Pulse(NetThread& net, std::chrono::milliseconds every, std::function<void()> beat)
      : net_(net), every_(every), beat_(std::move(beat)) {
    if (beat_) net_.transport().run([this] { tick(); });
  }
  ~Pulse() {
    if (beat_) net_.transport().run([this] { timer_.reset(); });
  }
  Pulse(const Pulse&) = delete;

 private:
  void tick() {
    timer_ = net_.clock().after(every_, [this] { tick(); });  // first: the beat may throw
    beat_();
  }

  NetThread& net_;
  const std::chrono::milliseconds every_;
  const std::function<void()> beat_;
  TimerPtr timer_;
};

// Logs the missing tasks until all have been there.
class MissingWord {
 public:
  explicit MissingWord(std::vector<std::string> tasks) : tasks_(std::move(tasks)) {}
  void look(Process& process) {
    const auto now = Clock::now();
    if (tasks_.empty() || now < next_) return;
    next_ = now + kWaitingWord;
    const auto missing = process.mesh()->waiting_for(tasks_);
    if (missing.empty())
      tasks_.clear();
    else
      say_waiting(*process.log(), joined(missing, ","), now - begin_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::vector<std::string> tasks_;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point next_ = begin_ + kWaitingWord;
};

std::shared_ptr<const Registry> ops_of(const NodeOptions& options) {
  return options.process.ops ? options.process.ops : builtin_ops();
}

}  // namespace

void run_node(const NodeOptions& options, const std::atomic<bool>& stop) {
  check_job(options.job);
  if (options.task < 0)
    throw Error(Errc::invalid_argument, "--task is ", options.task, "; tasks count from 0");
  if (options.on_alive)
    want_least("NodeOptions::alive_every", options.alive_every.count(), 1, "at least 1 ms");
  ClusterOptions cluster;
  cluster.cluster = options.cluster;
  cluster.listen = options.listen;
  cluster.announce = options.announce;
  cluster.seeds = options.seeds;
  cluster.insecure = options.insecure;
  want_least("NodeOptions::drain", options.drain.count(), 0, "0 (at once) or more");
  want_least("NodeOptions::lease", options.lease.count(), 0, "0 (never) or more");
  cluster.lease = options.lease;
  cluster.silence = read_silence(options.silence);
  cluster.secret = read_secret(options.secret_file);
  cluster.tls = read_tls(options.tls_dir, options.cluster, options.job, options.task);
  const std::string name = detail::concat("/job:", options.job, "/task:", options.task);
  ProcessSeams seams;
  seams.net = make_net_thread(options.listen_fd, options.local_fd);
  NetThread& net = *seams.net;  // the process keeps it until it has stopped
  Ending ending;
  cluster.on_failure = [&](Errc code, const std::string& text) { ending.tell(code, text); };
  ProcessOptions process_options = options.process;
  process_options.ops = ops_of(options);
  const uint64_t incarnation =
      options.incarnation ? options.incarnation : Process::draw_incarnation();
  Process process(name, incarnation, std::move(process_options), cluster, std::move(seams));
  NodeListener listener(process, ending);
  // Stops the process first on every way out: it calls objects of this function.
  struct StopFirst {
    Process& process;
    ~StopFirst() { process.stop(); }
  } stop_first{process};
  const std::string address = process.start(&listener);
  if (options.on_listening) options.on_listening(address);
  const Pulse pulse(net, options.alive_every, options.on_alive);
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  MissingWord word(options.wait_for);
  while (!stop && !ending.told()) {
    never.wait_for(lock, kStopPoll);
    word.look(process);
  }
  if (const auto told = ending.told()) throw Error(told->first, told->second);
  lock.unlock();
  if (options.drain > std::chrono::milliseconds(0)) drain(process, listener, options);
  process.log()->info("leaving: reason={}", "asked to stop");
}

void check_secret_file(const std::string& file) { read_secret(file); }

int draw_task(const NodeOptions& options, std::chrono::milliseconds timeout) {
  check_job(options.job);
  TaskRequest request;
  request.cluster = options.cluster;
  request.job = options.job;
  request.seeds = options.seeds;
  const auto ops = ops_of(options);
  request.fingerprint = ops->fingerprint();
  request.ops = own_ops(*ops);
  request.timeout = timeout;
  struct Answer {
    Errc code;
    std::string text;
    int32_t task;
  };
  for (const std::string& seed : options.seeds) (void)parse_address(seed);  // may throw
  std::promise<Answer> promise;
  auto future = promise.get_future();
  SystemRng rng;
  if (std::string secret = read_secret(options.secret_file); !secret.empty())
    request.secret = std::make_shared<const Secret>(std::move(secret), rng);
  request.tls = read_tls(options.tls_dir, request.cluster, request.job, -1);
  const auto net = make_net_thread();
  draw_task(net->transport(), net->clock(), rng, request,
            [&promise](Errc code, const std::string& text, int32_t task) {
              promise.set_value({code, text, task});
            });
  // The answer comes at the latest after `timeout`.
  while (future.wait_for(kWaitingWord) == std::future_status::timeout)
    if (options.process.log && options.process.log_level <= LogLevel::warn)
      options.process.log(LogLevel::warn,
                          "waiting for a member that knows which task is free: addresses=" +
                              joined(options.seeds, ","));
  const Answer answer = future.get();
  if (answer.code != Errc::ok) throw Error(answer.code, answer.text);
  return answer.task;
}

}  // namespace troupe

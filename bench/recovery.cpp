// recovery [--only A,B] [--rounds R] [--mib M] [--kills K]: how soon a training hears of a death
// or a freeze, how soon it goes on, and what it still does with a kill each 30 s.
//
// The benchmark runs itself as PROGRAM of `actor-node up` with 2 ps and 2 workers; that process
// trains and shoots. Times count from the signal to the program's own callbacks.
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include "bench/bench.hpp"
#include "troupe/cluster.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"
#include "troupe/training.hpp"

namespace troupe::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int kPs = 2, kWorkers = 2;
constexpr int64_t kCheckpointEvery = 200;  // steps
constexpr Seconds kUndisturbed{4};         // before a shot
constexpr Seconds kGiveUp{60};             // a training that has not gone on by then has failed
constexpr Seconds kProgramFrozen{10};
constexpr Seconds kKillEvery{30};

// The training as its callbacks see it. Thread: any.
class Watch {
 public:
  void step(int64_t done) {
    const std::lock_guard lock(mutex_);
    furthest_ = std::max(furthest_, done);
    step_at_ = Clock::now();
    changed_.notify_all();
  }
  void event(TrainEvent::Kind kind) {
    const std::lock_guard lock(mutex_);
    (kind == TrainEvent::resumed ? resumed_at_ : lost_at_) = Clock::now();
    changed_.notify_all();
  }
  int64_t furthest() const {
    const std::lock_guard lock(mutex_);
    return furthest_;
  }
  // Each waits for an event after `since`, and return its time. Throw: Error(timeout).
  Clock::time_point next_loss(Clock::time_point since) const {
    return next(since, lost_at_, "no loss was noticed");
  }
  Clock::time_point next_resumption(Clock::time_point since) const {
    return next(since, resumed_at_, "no shard is back");
  }
  Clock::time_point next_step(Clock::time_point since) const {
    return next(since, step_at_, "training does not go on");
  }

 private:
  Clock::time_point next(Clock::time_point since, const Clock::time_point& event,
                         const char* failure) const {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kGiveUp, [&] { return event > since; }))
      throw Error(Errc::timeout, failure, " in ", kGiveUp.count(), " s");
    return event;
  }

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  int64_t furthest_ = 0;
  Clock::time_point step_at_{}, lost_at_{}, resumed_at_{};
};

std::string run_folder() {
  const char* folder = std::getenv("TROUPE_RUN_DIR");
  if (!folder) throw Error(Errc::invalid_argument, "--child is for PROGRAM of actor-node up alone");
  return folder;
}

pid_t pid_of(const std::string& node) {
  pid_t pid = 0;
  std::ifstream(std::filesystem::path(run_folder()) / (node + ".pid")) >> pid;
  if (pid <= 0) throw Error(Errc::peer_lost, node, " does not run");
  return pid;
}

// The TCP ports at which sockets of a process are bound; either end may have dialled.
std::set<unsigned> ports_of(pid_t pid) {
  const std::string proc = detail::concat("/proc/", pid, "/");
  std::set<std::string> sockets;  // by inode
  for (const auto& entry : std::filesystem::directory_iterator(proc + "fd")) {
    std::error_code gone;
    const std::string to = std::filesystem::read_symlink(entry.path(), gone).string();
    if (to.starts_with("socket:[")) sockets.insert(to.substr(8, to.size() - 9));
  }
  std::set<unsigned> out;
  std::ifstream table(proc + "net/tcp");
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::string word, local, inode;
    for (int i = 0; words >> word; ++i) {
      if (i == 1) local = word;
      if (i == 9) inode = word;
    }
    if (sockets.count(inode))
      out.insert(
          static_cast<unsigned>(std::stoul(local.substr(local.rfind(':') + 1), nullptr, 16)));
  }
  return out;
}

// True if the other end of a socket is a process whose sockets are bound at these TCP ports: by its
// port, by the name of its local socket, which holds the port, or by its pid where it has dialled.
bool leads_to(int fd, pid_t pid, const std::set<unsigned>& ports) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return false;
  if (peer.ss_family == AF_INET)
    return ports.count(ntohs(reinterpret_cast<const sockaddr_in&>(peer).sin_port)) > 0;
  if (peer.ss_family != AF_UNIX) return false;
  const auto& name = reinterpret_cast<const sockaddr_un&>(peer);
  const auto at = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path));
  if (size > at + 1) {
    const std::string text(name.sun_path + 1, size - at - 1);
    const size_t colon = text.rfind(':');
    return colon != text.npos &&
           ports.count(static_cast<unsigned>(std::atoi(text.c_str() + colon + 1))) > 0;
  }
  ucred other{};
  size = sizeof other;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && other.pid == pid;
}

// Ends the program's connections to a process as a reset does: both ends see an end of the stream.
int end_links_to(pid_t pid) {
  const std::set<unsigned> ports = ports_of(pid);
  int ended = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::atoi(entry.path().filename().c_str());
    if (leads_to(fd, pid, ports) && shutdown(fd, SHUT_RDWR) == 0) ++ended;
  }
  return ended;
}

// Freezes this process, all threads of it. Returns when it went on.
Clock::time_point freeze_myself(Seconds length) {
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) throw Error(Errc::io, "no pipe: ", std::strerror(errno));
  const pid_t me = getpid();
  timespec nap{};
  nap.tv_sec = static_cast<time_t>(length.count());
  const pid_t helper = fork();
  if (helper < 0) throw Error(Errc::io, "no process: ", std::strerror(errno));
  if (helper == 0) {  // only functions that are safe in a fork of many threads
    kill(me, SIGSTOP);
    nanosleep(&nap, nullptr);
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);  // the clock of steady_clock
    kill(me, SIGCONT);
    _exit(write(pipe_ends[1], &now, sizeof now) == sizeof now ? 0 : 1);
  }
  timespec went_on{};
  const ssize_t got = read(pipe_ends[0], &went_on, sizeof went_on);
  waitpid(helper, nullptr, 0);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  if (got != sizeof went_on) throw Error(Errc::io, "the freeze has no end");
  return Clock::time_point(std::chrono::seconds(went_on.tv_sec) +
                           std::chrono::nanoseconds(went_on.tv_nsec));
}

// The begin and the end of a fault; equal for a death.
using Span = std::pair<Clock::time_point, Clock::time_point>;

Span send(const std::string& node, int signal) {
  const pid_t pid = pid_of(node);
  const auto now = Clock::now();
  if (kill(pid, signal) != 0)
    throw Error(Errc::io, "no signal for ", node, ": ", std::strerror(errno));
  return {now, now};
}

Span reset_link() {
  const auto now = Clock::now();
  if (end_links_to(pid_of("ps-0")) == 0) throw InternalError("no connection to ps-0");
  return {now, now};
}

struct Shot {
  const char* name;
  std::function<Span()> fire;
  bool of_shards;       // all towers stop until the shards are back
  bool noticed, again;  // which times are measured
};
const std::vector<Shot>& shots() {
  static const std::vector<Shot> all = {
      {"kill_worker", [] { return send("worker-0", SIGKILL); }, false, true, true},
      {"kill_ps", [] { return send("ps-0", SIGKILL); }, true, true, true},
      {"freeze_worker", [] { return send("worker-0", SIGSTOP); }, false, true, false},
      {"reset_link", reset_link, true, false, true},
      {"freeze_program",
       [] {
         const auto begin = Clock::now();
         return Span{begin, freeze_myself(kProgramFrozen)};
       },
       true, false, true}};
  return all;
}

// A table of `mib` MiB that is read and not trained, beside a layer that is: steps are short, and a
// restore has to read and send the whole.
std::vector<Tower> build(Graph& g, int64_t mib) {
  constexpr int64_t kWidth = 256, kBatch = 32;
  std::vector<Tower> towers;
  for (int i = 0; i < kWorkers; ++i) {
    const auto scope = g.scope({.name = detail::concat("tower", i),
                                .device = detail::concat("/job:worker/task:", i),
                                .replica = i});
    const Output table = parameter("table", fill(g, {mib * (1 << 20) / 4 / kWidth, kWidth}, 0.01f));
    const Output ids = placeholder(g, DType::i64, {kBatch}, "ids");
    const Output w = parameter("w", fill(g, {kWidth, kWidth}, 0.01f));
    const Output loss = reduce_mean(square(matmul(gather(stop_gradient(table), ids), w)));
    towers.push_back({i, loss, minimize(loss, momentum(1e-3)), {ids}, [i](int64_t step) {
                        std::vector<int64_t> rows(kBatch);
                        for (int64_t r = 0; r < kBatch; ++r)
                          rows[static_cast<size_t>(r)] = (step * kWorkers + i) * kBatch % 9973 + r;
                        return std::vector<Tensor>{Tensor::of<int64_t>(rows, {kBatch})};
                      }});
  }
  return towers;
}

// A restore without a checkpoint would begin at step 0.
void wait_for_checkpoint() {
  const auto end = Clock::now() + kGiveUp;
  const std::filesystem::path folder = run_folder() + "/checkpoints";
  const auto is_there = [&] {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(folder, none))
      if (entry.path().string().ends_with(".manifest.json")) return true;
    return false;
  };
  while (!is_there()) {
    if (Clock::now() > end) throw Error(Errc::timeout, "no checkpoint in ", kGiveUp.count(), " s");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void nap(Seconds length) { std::this_thread::sleep_for(length); }

// Fires each shot `rounds` times, with quiet time before.
void shoot(const Options& options, const Watch& watch, int64_t rounds, int64_t mib) {
  const std::string only = options.text("only", "");
  for (const Shot& shot : shots()) {
    if (!only.empty() && detail::concat(",", only, ",").find(detail::concat(",", shot.name, ",")) ==
                             std::string::npos)
      continue;
    std::vector<double> noticed, again;
    for (int64_t r = 0; r < rounds; ++r) {
      nap(kUndisturbed);
      const auto [begin, end] = shot.fire();
      const auto lost = watch.next_loss(begin);
      const auto back = shot.of_shards ? watch.next_resumption(end) : lost;
      noticed.push_back(Seconds(lost - begin).count() * 1e3);
      again.push_back(Seconds(watch.next_step(back) - end).count() * 1e3);
    }
    const auto tell = [&](const char* metric, const std::vector<double>& times) {
      for (const auto& [name, p] : {std::pair{"p50", 0.5}, std::pair{"max", 1.0}})
        report(options, "recovery", detail::concat(shot.name, "_", metric), quantile(times, p),
               "ms",
               {{"mib", std::to_string(mib)},
                {"rounds", std::to_string(rounds)},
                {"statistic", detail::concat("\"", name, "\"")}});
    };
    if (shot.noticed) tell("noticed", noticed);
    if (shot.again) tell("again", again);
  }
}

// Steps a second in 30 s with a kill, in turn of a worker and a ps, against the 30 s before it.
void measure_goodput(const Options& options, const Watch& watch, int64_t kills, int64_t mib) {
  const auto steps_in = [&](const std::function<void()>& middle) {
    const int64_t from = watch.furthest();
    nap(kKillEvery / 2);
    middle();
    nap(kKillEvery / 2);
    return static_cast<double>(watch.furthest() - from);
  };
  nap(kUndisturbed);
  double quiet = 0, shot_at = 0;
  for (int64_t k = 0; k < kills; ++k) {
    quiet += steps_in([] {});
    shot_at += steps_in([&] { send(k % 2 == 0 ? "worker-0" : "ps-0", SIGKILL); });
  }
  report(options, "recovery", "goodput_percent", 100 * shot_at / quiet, "%",
         {{"mib", std::to_string(mib)},
          {"kills", std::to_string(kills)},
          {"quiet_steps_per_s",
           std::to_string(std::lround(quiet / static_cast<double>(kills) / kKillEvery.count()))}});
}

int child(const Options& options, int64_t rounds, int64_t kills, int64_t mib) {
  const char* address = std::getenv("TROUPE_CLUSTER");
  if (!address)
    throw Error(Errc::invalid_argument, "--child is for PROGRAM of actor-node up alone");
  Graph graph;
  const std::vector<Tower> towers = build(graph, mib);
  ConnectOptions connect;
  if (const char* name = std::getenv("TROUPE_CLUSTER_NAME")) connect.cluster = name;
  connect.wait_for = {"/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:0",
                      "/job:worker/task:1"};
  static_assert(kPs == 2 && kWorkers == 2);
  connect.process.threads = 1;
  Session session = Session::connect(graph, address, connect);
  Watch watch;
  std::atomic<bool> over{false};
  std::exception_ptr failure;
  std::thread shooter([&] {
    try {
      watch.next_step(Clock::time_point{});
      wait_for_checkpoint();
      if (rounds > 0) shoot(options, watch, rounds, mib);
      if (kills > 0) measure_goodput(options, watch, kills, mib);
    } catch (...) {
      failure = std::current_exception();
    }
    over = true;
  });
  TrainOptions train_options;
  train_options.steps = INT64_MAX / 2;
  train_options.checkpoint_dir = run_folder() + "/checkpoints";
  train_options.checkpoint_every = kCheckpointEvery;
  train_options.pause_every = 100;
  train_options.on_pause = [&](const TrainPause&) { return !over.load(); };
  train_options.on_progress = [&](const TrainProgress& p) { watch.step(p.step); };
  train_options.on_event = [&](const TrainEvent& e) {
    if (e.kind != TrainEvent::warning) watch.event(e.kind);
    std::fprintf(stderr, "%s\n", e.text.c_str());
  };
  try {
    train(session, towers, train_options);
  } catch (...) {
    if (!failure) failure = std::current_exception();
  }
  shooter.join();
  if (failure) std::rethrow_exception(failure);
  return 0;
}

}  // namespace

int recovery(const Options& options) {
  const int64_t rounds = options.integer("rounds", 5), kills = options.integer("kills", 4);
  const int64_t mib = options.integer("mib", 64);
  if (rounds < 0 || kills < 0)
    throw Error(Errc::invalid_argument, "--rounds and --kills want at least 0");
  if (mib < 10 || mib > 1024)
    throw Error(Errc::invalid_argument, "--mib wants 10 to 1024, got ", mib);
  std::string known;
  for (const Shot& shot : shots()) known += detail::concat(known.empty() ? "" : ", ", shot.name);
  std::istringstream only(options.text("only", ""));
  for (std::string name; std::getline(only, name, ',');)
    if (std::none_of(shots().begin(), shots().end(), [&](const Shot& s) { return name == s.name; }))
      throw Error(Errc::invalid_argument, "--only knows ", known, ", got \"", name, "\"");
  if (options.flag("child")) return child(options, rounds, kills, mib);
  const auto self = std::filesystem::read_symlink("/proc/self/exe");
  std::vector<std::string> command = {(self.parent_path() / "actor-node").string(),
                                      "up",
                                      "--ps",
                                      std::to_string(kPs),
                                      "--workers",
                                      std::to_string(kWorkers),
                                      "--threads",
                                      "1",
                                      "--restarts",
                                      "1000",
                                      self.string(),
                                      "recovery",
                                      "--child",
                                      "--rounds",
                                      std::to_string(rounds),
                                      "--kills",
                                      std::to_string(kills),
                                      "--mib",
                                      std::to_string(mib)};
  if (options.given("only")) command.insert(command.end(), {"--only", options.text("only", "")});
  if (options.json()) command.emplace_back("--json");
  if (!std::filesystem::exists(command[0]))
    throw Error(Errc::io, "there is no ", command[0], "; build it: ./dev build");
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  throw Error(Errc::io, "cannot run ", command[0], ": ", std::strerror(errno));
}

}  // namespace troupe::bench

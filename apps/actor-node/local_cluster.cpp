// Starts, watches and stops the processes of a cluster on this machine.
#include "apps/actor-node/local_cluster.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string_view>

#include "apps/actor-node/signals.hpp"
#include "apps/actor-node/verbs.hpp"
#include "apps/program/write_aside.hpp"
#include "troupe/error.hpp"

using troupe::Errc;
using troupe::Error;
using troupe::LogLevel;
using namespace std::chrono_literals;

namespace {

constexpr LocalCluster::Millis kBackoffFirst = 100ms;
constexpr size_t kBackoffDoubles = 4;  // the pause doubles at most four times
constexpr LocalCluster::Millis kLookEvery = 250ms;
// If we were away for longer, nobody is judged by the silence of that time.
constexpr LocalCluster::Millis kLateMax = 1'000ms;
// From the start of a node until it must have been heard, whatever the machine is busy with.
constexpr LocalCluster::Millis kStartPatience = 30'000ms;

// Listens at a port of 127.0.0.1 (0: any free one), and makes `port` the real one. Another user can
// bind a port that is only bound here, and listen first.
int listen_at(uint16_t& port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(fd, SOMAXCONN) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    const int why = errno;
    if (fd >= 0) close(fd);
    throw Error(Errc::io, "cannot take port ", port, " of 127.0.0.1: ", std::strerror(why),
                "; give another --first-port, or none");
  }
  port = ntohs(address.sin_port);
  return fd;
}

std::string ordinal(int n) {
  const char* const ends[] = {"th", "st", "nd", "rd"};
  return std::to_string(n) + ends[n % 100 / 10 != 1 && n % 10 < 4 ? n % 10 : 0];
}

// The error that a node has said last, in the format of its log, without its name and time.
std::string last_words(const std::filesystem::path& log) {
  std::string last;
  std::ifstream in(log);
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) last = line;
  for (const std::string_view before : {"\"message\":\"", "actor-node join: "})
    if (const size_t at = last.find(before); at != last.npos) {
      last.erase(0, at + before.size());
      if (last.ends_with("\"}")) last.resize(last.size() - 2);
      break;
    }
  return last;
}

// By the clock, as a node by itself, so that nodes of an earlier cluster are older.
int64_t incarnation_now() {
  using Micros = std::chrono::microseconds;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<Micros>(now).count() << 8;
}

}  // namespace

template <class... Parts>
void LocalCluster::warn(const Parts&... parts) const {
  say_(LogLevel::warn, troupe::detail::concat(parts...));
}

pid_t spawn(const Spawn& what, const troupe::LogSink& say) {
  std::vector<char*> argv;
  for (const std::string& word : what.command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const char* const file = what.file.empty() ? argv[0] : what.file.c_str();
  SignalsHeld signals;
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) throw Error(Errc::io, "cannot start ", what.command[0], ": ", std::strerror(errno));
  if (pid > 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a stopped process would not act on anything less
  if (getppid() != parent) _exit(70);
  if (what.own_group) setpgid(0, 0);
  if (what.output >= 0) dup2(what.output, 1), dup2(what.output, 2);
  if (what.lines >= 0) dup2(what.lines, 1);
  for (const int fd : what.inherited) fcntl(fd, F_SETFD, 0);
  for (const auto& [key, value] : what.environment) setenv(key.c_str(), value.c_str(), 1);
  signals.release_as_child();
  signal(SIGPIPE, SIG_DFL);
  execvp(file, argv.data());
  const int why = errno;
  say(LogLevel::error, troupe::detail::concat("cannot run ", file, ": ", std::strerror(why)));
  _exit(why == ENOENT ? 127 : 126);
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status))
    return troupe::detail::concat("was ended by signal ", WTERMSIG(status), " (",
                                  strsignal(WTERMSIG(status)), ")");
  return troupe::detail::concat("exited with code ", WEXITSTATUS(status));
}

struct LocalCluster::Node {
  std::string job;
  int task = 0;
  std::string address, announced;  // where it listens, and is dialled
  int64_t incarnation = 0;         // of its newest start; it grows, even if the clock is set back
  pid_t pid = -1;
  int pulse = -1;            // the node writes here as long as it lives
  Time::time_point heard{};  // when it wrote last; later than now: it is still starting
  bool frozen = false;       // and has been killed for it
  std::deque<Time::time_point> restarts = {};
  Time::time_point start_at{};  // when pid is -1: start it then

  std::string name() const { return "/job:" + job + "/task:" + std::to_string(task); }
  std::string who() const { return troupe::detail::concat(name(), " (pid ", pid, ")"); }
  std::string file(const char* kind) const { return job + "-" + std::to_string(task) + kind; }
};

LocalCluster::LocalCluster(troupe::ClusterSpec spec, const Announced& announced,
                           std::filesystem::path directory, std::vector<std::string> node_flags,
                           const Limits& limits, troupe::LogSink say)
    : spec_(std::move(spec)),
      program_(std::filesystem::read_symlink("/proc/self/exe")),
      directory_(std::move(directory)),
      node_flags_(std::move(node_flags)),
      limits_(limits),
      say_(std::move(say)) {
  for (auto& [job, addresses] : spec_.jobs)
    for (std::string& address : addresses) {
      auto port = static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
      const int tcp = listen_at(port);
      address = "127.0.0.1:" + std::to_string(port);
      sockets_.push_back({tcp, troupe::listen_local(address)});
      nodes_.push_back({job, static_cast<int>(&address - addresses.data()), address, address});
      std::error_code ignored;  // of an earlier run in this folder
      std::filesystem::remove(directory_ / nodes_.back().file(".away"), ignored);
    }
  for (const auto& [task, address] : announced) {
    const auto node = std::find_if(nodes_.begin(), nodes_.end(), [&task = task](const Node& n) {
      return troupe::detail::concat(n.job, "/", n.task) == task;
    });
    if (node == nodes_.end())
      throw Error(Errc::invalid_argument, "--announce names ", task, ", and no such node is here");
    node->announced = spec_.jobs[node->job][static_cast<size_t>(node->task)] = address;
  }
}

std::string LocalCluster::listen_spec() const {
  troupe::ClusterSpec out = spec_;
  for (const Node& node : nodes_) out.jobs[node.job][static_cast<size_t>(node.task)] = node.address;
  return to_string(out);
}

bool LocalCluster::is_away(const Node& node) const {
  std::error_code ignored;
  return std::filesystem::exists(directory_ / node.file(".away"), ignored);
}

LocalCluster::~LocalCluster() {
  for (const Sockets& node : sockets_)
    for (const int fd : {node.tcp, node.local})
      if (fd >= 0) close(fd);
  for (const Node& node : nodes_)
    if (node.pulse >= 0) close(node.pulse);
}

LocalCluster::Millis LocalCluster::look() {
  const auto now = Time::now();
  const auto late = now - looked_at_;
  looked_at_ = now;
  auto wait = kLookEvery;
  for (Node& node : nodes_) {
    if (node.pid >= 0) {
      if (late > kLateMax) node.heard += late;
      listen_to(node, now);
      continue;
    }
    if (node.start_at <= now && !is_away(node))
      start(node);
    else if (node.start_at > now)
      wait = std::min(wait, std::chrono::ceil<Millis>(node.start_at - now));
  }
  return wait;
}

void LocalCluster::listen_to(Node& node, Time::time_point now) {
  char bytes[256];
  while (read(node.pulse, bytes, sizeof bytes) > 0) node.heard = now;
  const auto silent = std::chrono::duration<double>(now - node.heard);
  if (node.frozen || limits_.frozen_after == 0ms || silent <= limits_.frozen_after) return;
  node.frozen = true;
  warn(node.who(), " is frozen: silent for ", std::round(silent.count() * 10) / 10,
       " s; noticed by its supervisor (pid ", getpid(), "), which kills it (kill -9)");
  kill(node.pid, SIGKILL);
}

Errc LocalCluster::ended(pid_t pid, int status, bool stopping) {
  const auto found =
      std::find_if(nodes_.begin(), nodes_.end(), [&](const Node& n) { return n.pid == pid; });
  if (found == nodes_.end()) return Errc::ok;
  Node& node = *found;
  const std::string what = node.who() + " " + how_it_ended(status);
  const std::filesystem::path log = directory_ / node.file(".log");
  node.pid = -1;
  close(std::exchange(node.pulse, -1));
  std::error_code ignored;
  std::filesystem::remove(directory_ / node.file(".pid"), ignored);
  if (stopping) return Errc::ok;
  if (WIFEXITED(status) && WEXITSTATUS(status) == troupe::exit_code(Errc::bad_configuration))
    return give_up(Errc::bad_configuration,
                   troupe::detail::concat(what, "; no restart helps: ", last_words(log),
                                          ". Its log: ", log.string()));
  if (is_away(node)) {
    warn(what, "; it stays away while ", (directory_ / node.file(".away")).string(), " is there");
    return Errc::ok;
  }
  const auto now = Time::now();
  while (!node.restarts.empty() && now - node.restarts.front() > limits_.restarts_within)
    node.restarts.pop_front();
  if (node.restarts.size() >= static_cast<size_t>(limits_.restarts)) {
    const std::string said = last_words(log);
    return give_up(Errc::peer_lost,
                   troupe::detail::concat(what, ", the ", ordinal(limits_.restarts + 1),
                                          " time in ", limits_.restarts_within.count() / 1e3,
                                          " s: giving up. Its log: ", log.string(),
                                          said.empty() ? "" : ", which ends with: ", said));
  }
  node.restarts.push_back(now);
  const auto backoff = kBackoffFirst * (1 << std::min(node.restarts.size() - 1, kBackoffDoubles));
  node.start_at = now + backoff;
  warn(what, "; noticed by its supervisor (pid ", getpid(), "), which starts it again in ",
       backoff.count(), " ms (restart ", node.restarts.size(), " of ", limits_.restarts, ")");
  return Errc::ok;
}

Errc LocalCluster::give_up(Errc code, const std::string& why) {
  gave_up_ = true;
  say_(LogLevel::error, why);
  return code;
}

bool LocalCluster::any_running() const {
  return std::any_of(nodes_.begin(), nodes_.end(), [](const Node& n) { return n.pid >= 0; });
}

void LocalCluster::signal_all(int number) {
  for (const Node& node : nodes_)
    if (node.pid >= 0) kill(node.pid, number);
}

void LocalCluster::start(Node& node) {
  int pulse[2];
  if (pipe2(pulse, O_CLOEXEC | O_NONBLOCK) != 0)
    throw Error(Errc::io, "no pipe: ", std::strerror(errno));
  const Sockets& sockets = sockets_.at(static_cast<size_t>(&node - nodes_.data()));
  Spawn what;
  // Or it would die at the same fail point for ever.
  if (node.incarnation > 0) what.environment = {{"TROUPE_FAILPOINTS", ""}};
  node.incarnation = std::max(node.incarnation + 1, incarnation_now());
  what.file = program_;
  what.command = {"actor-node",    "join",
                  "--job",         node.job,
                  "--task",        std::to_string(node.task),
                  "--incarnation", std::to_string(node.incarnation),
                  "--listen",      node.address,
                  "--listen-fd",   std::to_string(sockets.tcp),
                  "--alive-fd",    std::to_string(pulse[1])};
  if (sockets.local >= 0)
    what.command.insert(what.command.end(), {"--local-fd", std::to_string(sockets.local)});
  for (const Node& other : nodes_)
    if (&other != &node) what.command.insert(what.command.end(), {"--seed", other.announced});
  if (node.announced != node.address)
    what.command.insert(what.command.end(), {"--announce", node.announced});
  what.command.insert(what.command.end(), node_flags_.begin(), node_flags_.end());
  what.output = open_log(node);  // in a folder that is there
  if (const std::string error = secret_ ? secret_->keep() : ""; !error.empty()) warn(error);
  what.inherited = {pulse[1], sockets.tcp};
  if (sockets.local >= 0) what.inherited.push_back(sockets.local);
  what.own_group = true;  // signals of a terminal reach nodes through us, in order
  node.pid = spawn(what, say_);
  close(pulse[1]);
  if (what.output >= 0) close(what.output);
  node.pulse = pulse[0];
  node.heard = Time::now() + kStartPatience;
  node.frozen = false;
  write_pid(node);
}

// Nobody may remove our folder while we run; if somebody did, it is made anew.
int LocalCluster::open_log(const Node& node) {
  const std::filesystem::path file = directory_ / node.file(".log");
  std::error_code error;
  if (std::filesystem::create_directories(directory_, error))
    warn("the run folder ", directory_.string(), " was removed; made it anew");
  const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0)
    warn("cannot open ", file.string(), ": ", std::strerror(errno), "; what ", node.name(),
         " has to say comes here");
  return fd;
}

// Whole or not at all: it is read by others.
void LocalCluster::write_pid(const Node& node) const {
  const std::filesystem::path file = directory_ / node.file(".pid");
  if (const std::error_code error = write_aside(file, std::to_string(node.pid) + "\n"))
    warn("cannot write ", file.string(), ": ", error.message(), "; ", node.who(),
         " runs all the same");
}

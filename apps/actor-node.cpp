// actor-node: a node of a cluster, and a whole local cluster.
//
//   actor-node join --job ps --task 0 --listen 127.0.0.1:7000 --seed host:port    one node, until
//   SIGTERM actor-node up --ps 2 --workers 2 PROGRAM [ARGS...]                            nodes on
//   this host, and PROGRAM on them
//
// `up` is the process supervisor: it starts each node, starts a dead one again within an intensity,
// tells PROGRAM where the cluster is by TROUPE_CLUSTER ("host:port,..."), and ends with PROGRAM's
// exit code, leaving no process behind.
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <boost/program_options.hpp>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>

#include "apps/console_log.hpp"
#include "troupe/node.hpp"

namespace options = boost::program_options;
using troupe::Errc;
using troupe::Error;
using Time = std::chrono::steady_clock;

namespace {

constexpr int kExitUsage = 64;
// A node may be started again this often within the period; past it the whole cluster ends.
constexpr int kRestartsMax = 5;
constexpr std::chrono::seconds kRestartPeriod{60};
constexpr std::chrono::milliseconds kBackoffFirst{100}, kBackoffMax{5'000};
constexpr std::chrono::seconds kStopPatience{10};  // after SIGTERM

std::atomic<bool> stop_requested{false};
int signal_pipe[2] = {-1, -1};

void on_signal(int number) {
  if (number != SIGCHLD) stop_requested = true;
  const char byte = static_cast<char>(number);
  [[maybe_unused]] const ssize_t n = write(signal_pipe[1], &byte, 1);
}

void catch_signals(std::initializer_list<int> numbers) {
  if (pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK) != 0)
    throw Error(Errc::io, "no pipe: ", std::strerror(errno));
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (int number : numbers) sigaction(number, &action, nullptr);
}

options::options_description common_options() {
  options::options_description out("common options");
  out.add_options()("cluster", options::value<std::string>()->default_value("troupe"),
                    "name of the cluster; all nodes must agree")(
      "threads", options::value<int>()->default_value(0),
      "lanes for kernels and actors; 0: one per core")(
      "log-format", options::value<std::string>()->default_value("text"), "text or json")(
      "log-level", options::value<std::string>()->default_value("info"),
      "trace, debug, info, warn or error")(
      "insecure", "allow addresses beyond loopback; there is no TLS on the links")("help",
                                                                                   "print this");
  return out;
}

// join

int join(const std::vector<std::string>& arguments) {
  options::options_description node("actor-node join: one node of a cluster");
  node.add_options()("job", options::value<std::string>()->default_value("worker"),
                     "ps, worker, or a name of yours")(
      "task", options::value<int>()->default_value(0), "number within the job")(
      "listen", options::value<std::string>()->default_value("127.0.0.1:0"),
      "address for the others; port 0: any free one")(
      "seed", options::value<std::vector<std::string>>()->composing(),
      "address of any member; may be given again")(
      "cpu-devices", options::value<int>()->default_value(1), "virtual CPU devices")(
      "memory-mib", options::value<int64_t>()->default_value(8192),
      "budget of each CPU device, MiB")("address-file", options::value<std::string>(),
                                        "write the address to this file once listening");
  node.add(common_options());
  options::variables_map given;
  options::store(options::command_line_parser(arguments).options(node).positional({}).run(), given);
  options::notify(given);
  if (given.count("help")) {
    std::cout << node << "\n";
    return 0;
  }
  troupe::NodeOptions what;
  what.cluster = given["cluster"].as<std::string>();
  what.job = given["job"].as<std::string>();
  what.task = given["task"].as<int>();
  what.listen = given["listen"].as<std::string>();
  if (given.count("seed")) what.seeds = given["seed"].as<std::vector<std::string>>();
  what.insecure = given.count("insecure") > 0;
  what.process.threads = given["threads"].as<int>();
  what.process.cpu_devices = given["cpu-devices"].as<int>();
  what.process.memory_budget_bytes = given["memory-mib"].as<int64_t>() << 20;
  const std::string name = "/job:" + what.job + "/task:" + std::to_string(what.task);
  what.process.log = console_log(given["log-format"].as<std::string>(), name);
  what.process.log_level = log_level(given["log-level"].as<std::string>());
  if (given.count("address-file"))
    what.on_listening = [file =
                             given["address-file"].as<std::string>()](const std::string& address) {
      std::ofstream(file + ".part") << address << "\n";
      std::filesystem::rename(file + ".part", file);
    };
  catch_signals({SIGTERM, SIGINT});
  troupe::run_node(what, stop_requested);
  return 0;
}

// up

struct Child {
  std::string job;
  int task = 0;
  std::string address;
  pid_t pid = -1;
  std::deque<Time::time_point> restarts;
  Time::time_point start_at{};  // when pid is -1: start it then
  std::string name() const { return "/job:" + job + "/task:" + std::to_string(task); }
  std::string file() const { return job + "-" + std::to_string(task); }
};

// A port that is free now, on loopback.
int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    const int why = errno;
    if (fd >= 0) close(fd);
    throw Error(Errc::io, "no free port on loopback: ", std::strerror(why));
  }
  close(fd);
  return ntohs(address.sin_port);
}

pid_t spawn(const std::vector<std::string>& command,
            const std::vector<std::pair<std::string, std::string>>& environment,
            const std::string& output_file, bool own_group) {
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) throw Error(Errc::io, "cannot start ", command[0], ": ", std::strerror(errno));
  if (pid > 0) return pid;
  // Never outlive the supervisor. A stopped node does not act on SIGTERM; it keeps nothing that a
  // kill could lose.
  prctl(PR_SET_PDEATHSIG, own_group ? SIGKILL : SIGTERM);
  if (getppid() != parent) _exit(70);
  if (own_group) setpgid(0, 0);  // a terminal's Ctrl-C reaches nodes through us, in order
  if (!output_file.empty()) {
    const int fd = open(output_file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd >= 0) dup2(fd, 1), dup2(fd, 2);
  }
  for (const auto& [key, value] : environment) setenv(key.c_str(), value.c_str(), 1);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  std::fprintf(stderr, "actor-node: cannot run %s: %s\n", argv[0], std::strerror(errno));
  _exit(errno == ENOENT ? 127 : 126);
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status))
    return std::string("was killed by ") + strsignal(WTERMSIG(status)) + " (signal " +
           std::to_string(WTERMSIG(status)) + ")";
  return "exited with code " + std::to_string(WEXITSTATUS(status));
}

class LocalCluster {
 public:
  LocalCluster(std::filesystem::path directory, std::vector<std::string> node_flags)
      : directory_(std::move(directory)), node_flags_(std::move(node_flags)) {}

  void add(const std::string& job, int count) {
    for (int i = 0; i < count; ++i)
      children_.push_back({job, i, "127.0.0.1:" + std::to_string(free_port()), -1, {}, {}});
  }
  std::string addresses() const {
    std::string out;
    for (const Child& c : children_) out += (out.empty() ? "" : ",") + c.address;
    return out;
  }
  void start_all() {
    for (Child& c : children_) start(c);
  }
  // Starts what is due. Returns how long until something is, at most a second.
  std::chrono::milliseconds start_due() {
    auto wait = std::chrono::milliseconds(1000);
    for (Child& c : children_) {
      if (c.pid >= 0) continue;
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(c.start_at - Time::now());
      if (left.count() <= 0)
        start(c);
      else
        wait = std::min(wait, left);
    }
    return wait;
  }
  // A child has ended. False: it died too often, so the cluster must end.
  bool ended(pid_t pid, int status, bool stopping) {
    for (Child& c : children_) {
      if (c.pid != pid) continue;
      c.pid = -1;
      std::filesystem::remove(directory_ / (c.file() + ".pid"));
      if (stopping) return true;
      const auto now = Time::now();
      while (!c.restarts.empty() && now - c.restarts.front() > kRestartPeriod)
        c.restarts.pop_front();
      if (c.restarts.size() >= kRestartsMax) {
        std::fprintf(
            stderr, "actor-node: %s (pid %d) %s, the %dth time in %ld s: giving up. Its log: %s\n",
            c.name().c_str(), pid, how_it_ended(status).c_str(), kRestartsMax + 1,
            static_cast<long>(kRestartPeriod.count()), (directory_ / (c.file() + ".log")).c_str());
        return false;
      }
      c.restarts.push_back(now);
      const auto backoff = std::min(kBackoffMax, kBackoffFirst * (1 << (c.restarts.size() - 1)));
      c.start_at = now + backoff;
      std::fprintf(stderr,
                   "actor-node: %s (pid %d) %s; noticed by its supervisor (pid %d), which starts "
                   "it again in %ld ms (restart %zu of %d)\n",
                   c.name().c_str(), pid, how_it_ended(status).c_str(), getpid(),
                   static_cast<long>(backoff.count()), c.restarts.size(), kRestartsMax);
      return true;
    }
    return true;
  }
  bool any_running() const {
    for (const Child& c : children_)
      if (c.pid >= 0) return true;
    return false;
  }
  void signal_all(int number) {
    for (const Child& c : children_)
      if (c.pid >= 0) kill(c.pid, number);
  }

 private:
  void start(Child& c) {
    std::vector<std::string> command = {
        "/proc/self/exe",       "join",     "--job",  c.job, "--task",
        std::to_string(c.task), "--listen", c.address};
    for (const Child& other : children_)
      if (&other != &c) command.insert(command.end(), {"--seed", other.address});
    command.insert(command.end(), node_flags_.begin(), node_flags_.end());
    c.pid = spawn(command, {}, directory_ / (c.file() + ".log"), true);
    std::ofstream(directory_ / (c.file() + ".pid")) << c.pid << "\n";
  }

  const std::filesystem::path directory_;
  const std::vector<std::string> node_flags_;
  std::vector<Child> children_;
};

int up(const std::vector<std::string>& arguments) {
  options::options_description what(
      "actor-node up [options] PROGRAM [ARGS...]: a cluster on this host, and PROGRAM on it");
  what.add_options()("ps", options::value<int>()->default_value(1),
                     "nodes that hold parameter shards")(
      "workers", options::value<int>()->default_value(1), "nodes that compute")(
      "run-dir", options::value<std::string>(),
      "folder for logs and pid files, kept afterwards; without it: a temporary one")(
      "memory-mib", options::value<int64_t>()->default_value(8192),
      "budget of each CPU device, MiB");
  what.add(common_options());
  // Options end at the program's name; what follows is the program's own.
  std::vector<std::string> mine, program;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word.rfind("--", 0) != 0) {
      program.assign(arguments.begin() + static_cast<ptrdiff_t>(i), arguments.end());
      break;
    }
    mine.push_back(word);
    const bool has_value =
        word.find('=') == std::string::npos && word != "--insecure" && word != "--help";
    if (has_value && i + 1 < arguments.size()) mine.push_back(arguments[++i]);
  }
  options::variables_map given;
  options::store(options::command_line_parser(mine).options(what).run(), given);
  options::notify(given);
  if (given.count("help")) {
    std::cout << what << "\n";
    return 0;
  }
  if (program.empty())
    throw Error(Errc::invalid_argument, "up: no PROGRAM given; see actor-node up --help");
  const int ps = given["ps"].as<int>(), workers = given["workers"].as<int>();
  if (ps < 0 || workers < 0 || ps + workers < 1 || ps + workers > 64)
    throw Error(Errc::invalid_argument, "up: wants between 1 and 64 nodes, got --ps ", ps,
                " --workers ", workers);

  // What the nodes would refuse is refused here, once.
  log_level(given["log-level"].as<std::string>());
  console_log(given["log-format"].as<std::string>(), "");
  if (given["threads"].as<int>() < 0)
    throw Error(Errc::invalid_argument, "--threads wants 0 (one per core) or more, got ",
                given["threads"].as<int>());
  const int64_t memory_mib = given["memory-mib"].as<int64_t>();
  if (memory_mib < 1 || memory_mib > (int64_t{1} << 30))
    throw Error(Errc::invalid_argument, "--memory-mib wants 1 to ", int64_t{1} << 30, ", got ",
                memory_mib);

  const bool keep = given.count("run-dir") > 0;
  std::filesystem::path directory;
  if (keep) {
    directory = given["run-dir"].as<std::string>();
    std::filesystem::create_directories(directory);
  } else {
    std::string pattern = (std::filesystem::temp_directory_path() / "troupe-XXXXXX").string();
    if (!mkdtemp(pattern.data()))
      throw Error(Errc::io, "no temporary folder ", pattern, ": ", std::strerror(errno));
    directory = pattern;
  }
  directory = std::filesystem::absolute(directory);
  std::vector<std::string> flags;
  for (const char* name : {"cluster", "log-format", "log-level"})
    flags.insert(flags.end(), {std::string("--") + name, given[name].as<std::string>()});
  flags.insert(flags.end(), {"--threads", std::to_string(given["threads"].as<int>())});
  flags.insert(flags.end(), {"--memory-mib", std::to_string(given["memory-mib"].as<int64_t>())});
  if (given.count("insecure")) flags.push_back("--insecure");

  catch_signals({SIGTERM, SIGINT, SIGCHLD});
  LocalCluster cluster(directory, flags);
  cluster.add("ps", ps);
  cluster.add("worker", workers);
  cluster.start_all();
  const pid_t program_pid = spawn(program,
                                  {{"TROUPE_CLUSTER", cluster.addresses()},
                                   {"TROUPE_CLUSTER_NAME", given["cluster"].as<std::string>()},
                                   {"TROUPE_PS", std::to_string(ps)},
                                   {"TROUPE_WORKERS", std::to_string(workers)},
                                   {"TROUPE_RUN_DIR", directory.string()}},
                                  "", false);

  int exit_code = -1;
  bool stopping = false, program_running = true, killed = false;
  Time::time_point stop_deadline{};
  while (program_running || cluster.any_running()) {
    auto wait = stopping ? std::chrono::milliseconds(200) : cluster.start_due();
    pollfd wake{signal_pipe[0], POLLIN, 0};
    poll(&wake, 1, static_cast<int>(std::max<int64_t>(1, wait.count())));
    char bytes[64];
    while (read(signal_pipe[0], bytes, sizeof bytes) > 0) {
    }
    int status = 0;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
      if (pid == program_pid) {
        program_running = false;
        if (exit_code < 0)
          exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      } else if (!cluster.ended(pid, status, stopping)) {
        exit_code = troupe::exit_code(Errc::peer_lost);
        stop_requested = true;
      }
    }
    if (!stopping && (stop_requested || !program_running)) {
      stopping = true;
      stop_deadline = Time::now() + kStopPatience;
      if (program_running) kill(program_pid, SIGTERM);
      cluster.signal_all(SIGTERM);
    }
    if (stopping && !killed && Time::now() > stop_deadline) {
      killed = true;
      std::fprintf(stderr, "actor-node: some processes did not stop within %ld s; killing them\n",
                   static_cast<long>(kStopPatience.count()));
      if (program_running) kill(program_pid, SIGKILL);
      cluster.signal_all(SIGKILL);
    }
  }
  if (!keep) std::filesystem::remove_all(directory);
  return exit_code < 0 ? 128 + SIGTERM : exit_code;
}

void usage(std::ostream& out) {
  out << "usage: actor-node up [options] PROGRAM [ARGS...]   a cluster on this host, and PROGRAM "
         "on it\n"
         "       actor-node join [options]                   one node of a cluster, until SIGTERM\n"
         "       actor-node up --help | join --help          the options\n";
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + std::min(argc, 2), argv + argc);
  const std::string verb = argc > 1 ? argv[1] : "";
  try {
    if (verb == "join") return join(arguments);
    if (verb == "up") return up(arguments);
    if (verb == "help" || verb == "--help") {
      usage(std::cout);
      return 0;
    }
    if (!verb.empty()) std::cerr << "actor-node: unknown verb \"" << verb << "\"\n";
    usage(std::cerr);
    return kExitUsage;
  } catch (const options::error& e) {
    std::cerr << "actor-node " << verb << ": " << e.what() << "; see actor-node " << verb
              << " --help\n";
    return kExitUsage;
  } catch (const Error& e) {
    std::cerr << "actor-node " << verb << ": " << e.what() << "\n";
    return troupe::exit_code(e.code());
  } catch (const std::filesystem::filesystem_error& e) {
    std::cerr << "actor-node " << verb << ": " << e.what() << "\n";
    return troupe::exit_code(Errc::io);
  } catch (const std::exception& e) {
    std::cerr << "actor-node " << verb << ": " << e.what() << "\n";
    return 70;
  }
}

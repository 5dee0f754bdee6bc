// actor-node up: a cluster on this machine, and a program on it.
//
// It is the process supervisor: it starts the nodes and PROGRAM, keeps the nodes alive
// (local_cluster.hpp), tells PROGRAM by its environment where the cluster is, and ends with
// PROGRAM's exit code, leaving no process behind, also none that PROGRAM has started. If it is
// killed itself, the kernel ends the nodes and PROGRAM, and not the processes of PROGRAM.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

#include "apps/actor-node/local_cluster.hpp"
#include "apps/actor-node/secret_file.hpp"
#include "apps/actor-node/signals.hpp"
#include "apps/actor-node/verbs.hpp"
#include "apps/program/write_aside.hpp"
#include "apps/console_log.hpp"
#include "apps/failpoints.hpp"
#include "apps/folder_claim.hpp"
#include "apps/plugins.hpp"
#include "apps/scratch_folder.hpp"
#include "apps/words.hpp"
#include "troupe/custom_op.hpp"

using troupe::Errc;
using troupe::Error;
using troupe::LogLevel;
using Time = std::chrono::steady_clock;

namespace {

constexpr int kNodesMax = 64;
constexpr int kRestartsMax = 10'000;
constexpr std::chrono::seconds kStopPatience{10};  // of who was asked to stop

struct UpOptions {
  int ps = 1, workers = 1, first_port = 0;
  std::optional<std::string> run_dir;
  std::vector<std::string> announce;
  double frozen_after = 3, restarts_within = 60;
  int restarts = 5;
  NodeFlags node;
};

void add_up(Flags& flags, UpOptions& to) {
  flags.add("ps", &to.ps, "nodes that hold parameter shards");
  flags.add("workers", &to.workers, "nodes that compute");
  flags.add("first-port", &to.first_port,
            "nodes listen on this port and the next ones; 0: on any free ones");
  flags.add("run-dir", &to.run_dir,
            "folder for logs, pid files, the cluster spec and the secret; logs and spec are kept; "
            "without it: a temporary one");
  flags.add("announce", &to.announce,
            "TASK=HOST:PORT, as worker/1=127.0.0.1:7001: the others dial the node there, where a "
            "relay leads to it; may be given again. RUN-DIR/listen.spec says where nodes listen");
  flags.add("frozen-after", &to.frozen_after,
            "seconds of silence after which a node is killed and started again; 0: never");
  flags.add("restarts", &to.restarts,
            "starts of a node after deaths within --restarts-within; one death more ends the "
            "cluster");
  flags.add("restarts-within", &to.restarts_within, "seconds in which --restarts are counted");
  add_node_flags(flags, to.node);
}

// A mistake is said here, once, and not by each node.
void check(const UpOptions& given, const std::vector<std::string>& program) {
  if (program.empty())
    throw Error(Errc::invalid_argument, "no PROGRAM given; see actor-node up --help");
  if (given.ps < 0 || given.workers < 0 || given.ps > kNodesMax || given.workers > kNodesMax ||
      given.ps + given.workers < 1 || given.ps + given.workers > kNodesMax)
    throw Error(Errc::invalid_argument, "wants between 1 and ", kNodesMax, " nodes, got --ps ",
                given.ps, " --workers ", given.workers);
  check_node_flags(given.node);
  if (given.node.secret_file) troupe::check_secret_file(*given.node.secret_file);
  const std::vector<std::string> plugins = absolute_paths(given.node.plugins);
  for (const std::string& path : plugins)
    if (path.find(':') != path.npos)
      throw Error(Errc::invalid_argument, "--plugin ", path, ": a colon separates paths in ",
                  kPluginsVariable, ", which PROGRAM gets; move the file to a path without one");
  troupe::ops_with_plugins(plugins);
  if (!(given.frozen_after == 0 || (given.frozen_after >= 1 && given.frozen_after <= 86'400)))
    throw Error(Errc::invalid_argument, "--frozen-after wants 0 (never) or 1 to 86400 s, got ",
                given.frozen_after);
  if (given.restarts < 0 || given.restarts > kRestartsMax)
    throw Error(Errc::invalid_argument, "--restarts wants 0 to ", kRestartsMax, ", got ",
                given.restarts);
  if (!(given.restarts_within >= 1 && given.restarts_within <= 86'400))
    throw Error(Errc::invalid_argument, "--restarts-within wants 1 to 86400 s, got ",
                given.restarts_within);
}

LocalCluster::Announced announced(const std::vector<std::string>& words) {
  LocalCluster::Announced out;
  for (const std::string& word : words) {
    const size_t end = word.find('=');
    const std::string task = word.substr(0, end);
    if (end == word.npos || task.empty() || end + 1 == word.size())
      throw Error(Errc::invalid_argument,
                  "--announce wants TASK=HOST:PORT, as worker/1=127.0.0.1:7001, got \"", word,
                  "\"");
    if (!out.emplace(task, word.substr(end + 1)).second)
      throw Error(Errc::invalid_argument, "--announce names ", task, " twice");
  }
  return out;
}

std::vector<std::string> node_flags(const NodeFlags& given) {
  std::vector<std::string> out = {"--cluster",    given.cluster,
                                  "--log-format", given.log_format,
                                  "--log-level",  given.log_level,
                                  "--threads",    std::to_string(given.threads),
                                  "--memory-mib", std::to_string(given.memory_mib),
                                  "--lease",      std::to_string(given.lease),
                                  "--drain",      std::to_string(given.drain)};
  for (const std::string& path : absolute_paths(given.plugins))
    out.insert(out.end(), {"--plugin", path});
  for (const std::string& path : absolute_paths(given.data_dirs))
    out.insert(out.end(), {"--data-dir", path});
  if (given.insecure) out.push_back("--insecure");
  return out;
}

// The folder for logs and pid files. A temporary one goes with this object.
class RunFolder {
 public:
  explicit RunFolder(const std::optional<std::string>& named) {
    if (named) {
      path_ = std::filesystem::absolute(*named);
      std::filesystem::create_directories(path_);
      claim_.emplace(path_, "--run-dir");  // pid files of two runs would be mixed up
      return;
    }
    path_ = scratch_.emplace().path();
  }
  RunFolder(const RunFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  void keep() {
    if (scratch_) scratch_->keep();
  }

 private:
  std::filesystem::path path_;
  std::optional<FolderClaim> claim_;
  std::optional<ScratchFolder> scratch_;
};

// The children of this process, as the kernel lists them.
std::vector<pid_t> children() {
  std::vector<pid_t> out;
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc", error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    std::ifstream in(it->path() / "stat");
    std::string stat;
    std::getline(in, stat, '\0');
    const size_t behind_name = stat.rfind(") ");  // then the state and the parent
    if (behind_name != stat.npos && behind_name + 4 < stat.size() &&
        std::strtol(stat.c_str() + behind_name + 4, nullptr, 10) == getpid())
      out.push_back(static_cast<pid_t>(std::stol(name)));
  }
  return out;
}

// PROGRAM, its nodes, and how all of them end.
class Supervisor {
 public:
  Supervisor(LocalCluster& cluster, troupe::LogSink say)
      : cluster_(cluster), say_(std::move(say)) {}

  int run(const Spawn& program) {
    const std::vector<pid_t> before = children();  // of the process that became this one by exec
    others_.insert(before.begin(), before.end());
    cluster_.look();  // starts all nodes
    program_ = spawn(program, say_);
    program_name_ = std::filesystem::path(program.command[0]).filename().string();
    while (program_ >= 0 || cluster_.any_running()) {
      wait_for_signal(stopping_ ? std::chrono::milliseconds(200) : cluster_.look());
      int status = 0;
      for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) ended(pid, status);
      if (!stopping_ && (stop_requested || program_ < 0)) stop();
      if (stopping_ && !pressed_ && Time::now() > stop_deadline_ - kStopPatience / 2) press();
      if (stopping_ && !killed_ && Time::now() > stop_deadline_) kill_all();
    }
    end_left();
    return exit_code_ < 0 ? 128 + signal_to_pass() : exit_code_;
  }

 private:
  // PROGRAM may be a script that leaves processes behind, whose reaper this process is.
  void end_left() {
    const auto late = Time::now() + (killed_ ? Time::duration{} : kStopPatience);
    std::set<pid_t> asked;
    for (std::vector<pid_t> left = still_left(); !left.empty(); left = still_left()) {
      if (Time::now() > late + kStopPatience)
        return say_(LogLevel::warn,
                    troupe::detail::concat(left.size(), " processes of ", program_name_,
                                           " cannot be ended, ", left.front(), " among them"));
      for (const pid_t pid : left)
        if (Time::now() >= late || asked.insert(pid).second) {
          kill(pid, Time::now() >= late ? SIGKILL : SIGTERM);
          kill(pid, SIGCONT);  // or a stopped process would not hear of it
        }
      wait_for_signal(std::chrono::milliseconds(200));
    }
  }
  std::vector<pid_t> still_left() {
    while (waitpid(-1, nullptr, WNOHANG) > 0) continue;
    std::vector<pid_t> out = children();
    std::erase_if(out, [this](pid_t pid) { return others_.count(pid) > 0; });
    return out;
  }
  void ended(pid_t pid, int status) {
    if (pid == program_) {
      program_ = -1;
      if (WIFSIGNALED(status) && !stopping_ && !stop_requested)
        say_(LogLevel::error, program_name_ + " " + how_it_ended(status));
      if (exit_code_ < 0)
        exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    } else if (const Errc why = cluster_.ended(pid, status, stopping_); why != Errc::ok) {
      exit_code_ = troupe::exit_code(why);
      stop_requested = true;
    }
  }
  // PROGRAM is stopped with the signal that stops us, so that it can tell Ctrl-C and a lost
  // terminal from a request to end.
  static int signal_to_pass() { return stop_signal ? stop_signal.load() : SIGTERM; }
  // A second Ctrl-C ends many programs at once; it is the person's to give, and not ours.
  bool program_has_heard() const { return group_has_heard && getpgid(program_) == getpgrp(); }
  void stop() {
    stopping_ = true;
    stop_deadline_ = Time::now() + kStopPatience;
    if (program_ >= 0 && !program_has_heard()) kill(program_, signal_to_pass());
    cluster_.signal_all(SIGTERM);
    signal_all(SIGCONT);  // or a stopped process would not hear of it
  }
  void press() {  // it may ignore what it was passed
    pressed_ = true;
    if (program_ >= 0 && signal_to_pass() != SIGTERM) kill(program_, SIGTERM);
  }
  void kill_all() {
    killed_ = true;
    say_(LogLevel::warn, troupe::detail::concat("some processes did not stop within ",
                                                kStopPatience.count(), " s; killing them"));
    signal_all(SIGKILL);
  }
  void signal_all(int number) {
    if (program_ >= 0) kill(program_, number);
    cluster_.signal_all(number);
  }

  LocalCluster& cluster_;
  const troupe::LogSink say_;
  std::set<pid_t> others_;  // children that are neither PROGRAM's nor nodes
  pid_t program_ = -1;
  std::string program_name_;
  int exit_code_ = -1;
  bool stopping_ = false, pressed_ = false, killed_ = false;
  Time::time_point stop_deadline_{};
};

int run(const UpOptions& given, const std::vector<std::string>& command,
        const troupe::LogSink& say) {
  check(given, command);
  const auto millis = [](double seconds) {
    return std::chrono::round<LocalCluster::Millis>(std::chrono::duration<double>(seconds));
  };
  const LocalCluster::Limits limits{millis(given.frozen_after), given.restarts,
                                    millis(given.restarts_within)};
  catch_signals({SIGTERM, SIGINT, SIGHUP, SIGCHLD});
  signal(SIGPIPE, SIG_IGN);  // the end of a reader of our lines ends no cluster
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  RunFolder folder(given.run_dir);
  LocalCluster cluster(troupe::local_cluster_spec(given.ps, given.workers, given.first_port),
                       announced(given.announce), folder.path(), node_flags(given.node), limits,
                       say);
  const auto write = [&](const char* file, const std::string& text) {
    if (const auto error = write_aside(folder.path() / file, text))
      throw Error(Errc::io, "cannot write ", file, " into ", folder.path().string(), ": ",
                  error.message(), "; choose another place with --run-dir");
  };
  write("cluster.spec", to_string(cluster.spec()));
  if (!given.announce.empty()) write("listen.spec", cluster.listen_spec());
  // Nodes and PROGRAM inherit the variable. Our own TROUPE_SECRET_FILE is ignored, as two clusters
  // of one shell would share it.
  std::optional<SecretFile> drawn;
  if (!given.node.secret_file) cluster.keep(drawn.emplace(folder.path() / "secret"));
  const std::filesystem::path secret =
      drawn ? drawn->path() : std::filesystem::absolute(*given.node.secret_file);
  setenv("TROUPE_SECRET_FILE", secret.c_str(), 1);
  if (given.node.silence)
    setenv("TROUPE_SILENCE", troupe::detail::concat(*given.node.silence).c_str(), 1);
  if (given.node.failpoints) setenv("TROUPE_FAILPOINTS", given.node.failpoints->c_str(), 1);
  unsetenv("TROUPE_TLS_DIR");  // one certificate names one process, and all links are on loopback
  Spawn program;
  program.command = command;
  program.environment = {{"TROUPE_CLUSTER", joined(cluster.spec().addresses(), ",")},
                         {"TROUPE_CLUSTER_NAME", given.node.cluster},
                         {"TROUPE_PS", std::to_string(given.ps)},
                         {"TROUPE_WORKERS", std::to_string(given.workers)},
                         {"TROUPE_RUN_DIR", folder.path().string()}};
  if (!given.node.plugins.empty())
    program.environment.emplace_back(kPluginsVariable,
                                     with_colons(absolute_paths(given.node.plugins)));
  const int code = Supervisor(cluster, say).run(program);
  if (cluster.gave_up()) folder.keep();  // its logs are what to look at
  return code;
}

}  // namespace

int up(const std::vector<std::string>& arguments) {
  UpOptions given;
  Flags flags(
      "actor-node up",
      "actor-node up [options] PROGRAM [ARGS...]: a cluster on this host, and PROGRAM on it");
  add_up(flags, given);
  flags.end_at_word();  // the words behind PROGRAM are its own
  if (!flags.parse(arguments)) return 0;
  const std::string& format = given.node.log_format;
  return exit_code_of(console_voice(format, "actor-node up"), [&] {
    if (list_failpoints(given.node.failpoints)) return 0;
    return run(given, flags.command, console_voice(format, "actor-node"));
  });
}

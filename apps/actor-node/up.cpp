// actor-node up: a cluster on this machine, and a program on it.
//
// It is the process supervisor: it starts the nodes and PROGRAM, keeps the nodes alive
// (local_cluster.hpp), tells PROGRAM by its environment where the cluster is, and ends with
// PROGRAM's exit code, leaving no process behind.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <optional>

#include "apps/actor-node/local_cluster.hpp"
#include "apps/actor-node/signals.hpp"
#include "apps/actor-node/verbs.hpp"
#include "apps/console_log.hpp"
#include "apps/folder_claim.hpp"
#include "apps/plugins.hpp"
#include "troupe/custom_op.hpp"

namespace options = boost::program_options;
using troupe::Errc;
using troupe::Error;
using troupe::LogLevel;
using Time = std::chrono::steady_clock;

namespace {

constexpr int kNodesMax = 64;
constexpr std::chrono::seconds kStopPatience{10};  // of who was asked to stop

options::options_description up_options() {
  options::options_description out(
      "actor-node up [options] PROGRAM [ARGS...]: a cluster on this host, and PROGRAM on it");
  out.add_options()("ps", options::value<int>()->default_value(1),
                    "nodes that hold parameter shards")(
      "workers", options::value<int>()->default_value(1), "nodes that compute")(
      "first-port", options::value<int>()->default_value(0),
      "nodes listen on this port and the next ones; 0: on any free ones")(
      "run-dir", options::value<std::string>(),
      "folder for logs, pid files and the cluster spec; logs and spec are kept; without it: a "
      "temporary one")(
      "frozen-after", options::value<double>()->default_value(3),
      "seconds of silence after which a node is killed and started again; 0: never");
  return out.add(common_options());
}

struct CommandLine {
  std::vector<std::string> mine, program;
};

// Options end at the program's name; what follows is the program's own.
CommandLine split(const std::vector<std::string>& arguments) {
  CommandLine out;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word.size() < 2 || word[0] != '-' || word == "--") {
      const size_t first = word == "--" ? i + 1 : i;
      out.program.assign(arguments.begin() + static_cast<ptrdiff_t>(first), arguments.end());
      break;
    }
    out.mine.push_back(word);
    const bool has_value = word.rfind("--", 0) == 0 && word.find('=') == std::string::npos &&
                           word != "--insecure" && word != "--help";
    if (has_value && i + 1 < arguments.size()) out.mine.push_back(arguments[++i]);
  }
  return out;
}

// What is wrong is said here, once, and not by each node.
void check(const options::variables_map& given, const CommandLine& line) {
  const auto number = [&](const char* name) { return given[name].as<int>(); };
  if (line.program.empty())
    throw Error(Errc::invalid_argument, "no PROGRAM given; see actor-node up --help");
  if (number("ps") < 0 || number("workers") < 0 || number("ps") + number("workers") < 1 ||
      number("ps") + number("workers") > kNodesMax)
    throw Error(Errc::invalid_argument, "wants between 1 and ", kNodesMax, " nodes, got --ps ",
                number("ps"), " --workers ", number("workers"));
  check_common(given);
  const std::vector<std::string> plugins = plugins_named(given);
  for (const std::string& path : plugins)
    if (path.find(':') != path.npos)
      throw Error(Errc::invalid_argument, "--plugin ", path, ": a colon separates paths in ",
                  kPluginsVariable, ", which PROGRAM gets; move the file to a path without one");
  troupe::ops_with_plugins(plugins);
  const double frozen_after = given["frozen-after"].as<double>();
  if (!(frozen_after == 0 || (frozen_after >= 1 && frozen_after <= 86'400)))
    throw Error(Errc::invalid_argument, "--frozen-after wants 0 (never) or 1 to 86400 s, got ",
                frozen_after);
}

std::vector<std::string> node_flags(const options::variables_map& given) {
  std::vector<std::string> out;
  for (const char* name : {"cluster", "log-format", "log-level"})
    out.insert(out.end(), {std::string("--") + name, given[name].as<std::string>()});
  out.insert(out.end(), {"--threads", std::to_string(given["threads"].as<int>())});
  out.insert(out.end(), {"--memory-mib", std::to_string(given["memory-mib"].as<int64_t>())});
  for (const std::string& path : plugins_named(given)) out.insert(out.end(), {"--plugin", path});
  if (given.count("insecure")) out.push_back("--insecure");
  return out;
}

// The folder for logs and pid files. A temporary one goes with this object.
class RunFolder {
 public:
  explicit RunFolder(const options::variables_map& given) : keep_(given.count("run-dir") > 0) {
    if (keep_) {
      path_ = std::filesystem::absolute(given["run-dir"].as<std::string>());
      std::filesystem::create_directories(path_);
      claim_.emplace(path_, "--run-dir");  // pid files of two runs would be mixed up
      return;
    }
    std::error_code error;
    const std::filesystem::path temporary = std::filesystem::temp_directory_path(error);
    if (error)
      throw Error(Errc::io, "no folder for temporary files: ", error.message(),
                  "; let TMPDIR name one, or give --run-dir");
    std::string pattern = (temporary / "troupe-XXXXXX").string();
    if (!mkdtemp(pattern.data()))
      throw Error(Errc::io, "no temporary folder ", pattern, ": ", std::strerror(errno));
    path_ = std::filesystem::absolute(pattern);
  }
  ~RunFolder() {
    std::error_code ignored;
    if (!keep_) std::filesystem::remove_all(path_, ignored);
  }
  RunFolder(const RunFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  void keep() { keep_ = true; }

 private:
  bool keep_;
  std::filesystem::path path_;
  std::optional<FolderClaim> claim_;
};

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ",") + word;
  return out;
}

// PROGRAM, its nodes, and how all of them end.
class Supervisor {
 public:
  Supervisor(LocalCluster& cluster, troupe::LogSink say)
      : cluster_(cluster), say_(std::move(say)) {}

  int run(const Spawn& program) {
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
    return exit_code_ < 0 ? 128 + signal_to_pass() : exit_code_;
  }

 private:
  void ended(pid_t pid, int status) {
    if (pid == program_) {
      program_ = -1;
      if (WIFSIGNALED(status) && !stopping_ && !stop_requested)
        say_(LogLevel::error, program_name_ + " " + how_it_ended(status));
      if (exit_code_ < 0)
        exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    } else if (!cluster_.ended(pid, status, stopping_)) {
      exit_code_ = troupe::exit_code(Errc::peer_lost);
      stop_requested = true;
    }
  }
  // What PROGRAM is stopped with: by the signal that stops us, so that it can tell Ctrl-C and a
  // lost terminal from an order.
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
  pid_t program_ = -1;
  std::string program_name_;
  int exit_code_ = -1;
  bool stopping_ = false, pressed_ = false, killed_ = false;
  Time::time_point stop_deadline_{};
};

int run(const options::variables_map& given, const CommandLine& line, const troupe::LogSink& say) {
  check(given, line);
  const int ps = given["ps"].as<int>(), workers = given["workers"].as<int>();
  const auto frozen_after = std::chrono::round<LocalCluster::Millis>(
      std::chrono::duration<double>(given["frozen-after"].as<double>()));
  catch_signals({SIGTERM, SIGINT, SIGHUP, SIGCHLD});
  RunFolder folder(given);
  LocalCluster cluster(troupe::local_cluster_spec(ps, workers, given["first-port"].as<int>()),
                       folder.path(), node_flags(given), frozen_after, say);
  if (const auto error = write_aside(folder.path() / "cluster.spec", to_string(cluster.spec())))
    throw Error(Errc::io, "cannot write cluster.spec into ", folder.path().string(), ": ",
                error.message(), "; choose another place with --run-dir");
  Spawn program;
  program.command = line.program;
  program.environment = {{"TROUPE_CLUSTER", joined(cluster.spec().addresses())},
                         {"TROUPE_CLUSTER_NAME", given["cluster"].as<std::string>()},
                         {"TROUPE_PS", std::to_string(ps)},
                         {"TROUPE_WORKERS", std::to_string(workers)},
                         {"TROUPE_RUN_DIR", folder.path().string()}};
  if (given.count("plugin"))
    program.environment.emplace_back(kPluginsVariable, with_colons(plugins_named(given)));
  const int code = Supervisor(cluster, say).run(program);
  if (cluster.gave_up()) folder.keep();  // its logs are what to look at
  return code;
}

}  // namespace

int up(const std::vector<std::string>& arguments) {
  const options::options_description what = up_options();
  const CommandLine line = split(arguments);
  options::variables_map given;
  options::store(options::command_line_parser(line.mine).options(what).run(), given);
  options::notify(given);
  if (given.count("help")) {
    std::cout << what << "\n";
    return 0;
  }
  const std::string format = given["log-format"].as<std::string>();
  return exit_code_of(console_voice(format, "actor-node up"),
                      [&] { return run(given, line, console_voice(format, "actor-node")); });
}

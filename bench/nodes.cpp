// Starts and stops actor-node processes for the benchmarks.
#include "bench/nodes.hpp"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "troupe/error.hpp"

namespace troupe::bench {
namespace {

constexpr std::chrono::seconds kStartPatience{30};
constexpr std::chrono::milliseconds kLookEvery{2};

// The path of actor-node, which is built beside this program.
std::filesystem::path node_program() {
  auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "actor-node";
  if (!std::filesystem::exists(program))
    throw Error(Errc::io, "there is no ", program.string(), "; build it: ./dev build");
  return program;
}

// `core` as in NodePlace.
pid_t start(const std::vector<std::string>& command, int core) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid < 0) throw Error(Errc::io, "cannot start a node: ", std::strerror(errno));
  if (pid > 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (core >= 0) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);
  }
  execv(argv[0], argv.data());
  _exit(127);
}

std::filesystem::path make_folder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "troupe-bench-XXXXXX").string();
  if (!mkdtemp(pattern.data()))
    throw Error(Errc::io, "no temporary folder ", pattern, ": ", std::strerror(errno));
  return pattern;
}

std::vector<NodePlace> places_of(const std::string& job, int count) {
  std::vector<NodePlace> out;
  for (int i = 0; i < count; ++i) out.push_back({.job = job, .task = i});
  return out;
}

}  // namespace

Nodes::Nodes(const std::string& job, int count) : Nodes(places_of(job, count)) {}

Nodes::Nodes(const std::vector<NodePlace>& places) : folder_(make_folder()) {
  try {
    for (const NodePlace& place : places) add(place);
  } catch (...) {  // the destructor does not run if the constructor throws
    end();
    throw;
  }
}

Nodes::~Nodes() { end(); }

void Nodes::add(const NodePlace& place) {
  const std::string task = std::to_string(place.task), name = place.job + task;
  const std::filesystem::path file = folder_ / name;
  std::vector<std::string> command = {node_program(),   "join",        "--cluster", "bench",
                                      "--job",          place.job,     "--task",    task,
                                      "--address-file", file.string(), "--threads", "1",
                                      "--log-level",    "error"};
  for (const std::string& address : addresses_) command.insert(command.end(), {"--seed", address});
  pids_.push_back(start(command, place.core));
  const auto end = std::chrono::steady_clock::now() + kStartPatience;
  std::string address;
  while (!(std::ifstream(file) >> address)) {  // the file appears complete
    if (waitpid(pids_.back(), nullptr, WNOHANG) != 0) {
      pids_.pop_back();
      throw Error(Errc::peer_lost, "node ", name, " ended before it listened; see above");
    }
    if (std::chrono::steady_clock::now() > end)
      throw Error(Errc::timeout, "node ", name, " does not listen");
    std::this_thread::sleep_for(kLookEvery);
  }
  addresses_.push_back(address);
  names_.push_back("/job:" + place.job + "/task:" + task);
}

void Nodes::end() {
  for (pid_t pid : pids_) kill(pid, SIGTERM);
  for (pid_t pid : pids_) waitpid(pid, nullptr, 0);
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string Nodes::addresses() const {
  std::string out;
  for (const std::string& a : addresses_) out += (out.empty() ? "" : ",") + a;
  return out;
}

}  // namespace troupe::bench

// Starts and stops actor-node processes for the benchmarks.
#include "bench/nodes.hpp"

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

pid_t start(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid < 0) throw Error(Errc::io, "cannot start a node: ", std::strerror(errno));
  if (pid > 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  execv(argv[0], argv.data());
  _exit(127);
}

std::filesystem::path make_folder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "troupe-bench-XXXXXX").string();
  if (!mkdtemp(pattern.data()))
    throw Error(Errc::io, "no temporary folder ", pattern, ": ", std::strerror(errno));
  return pattern;
}

}  // namespace

Nodes::Nodes(const std::string& job, int count) : job_(job), folder_(make_folder()) {
  try {
    for (int i = 0; i < count; ++i) add(i);
  } catch (...) {  // the destructor does not run if the constructor throws
    end();
    throw;
  }
}

Nodes::~Nodes() { end(); }

void Nodes::add(int task) {
  const std::filesystem::path file = folder_ / std::to_string(task);
  std::vector<std::string> command = {
      node_program(), "join",   "--cluster",          "bench",          "--job",
      job_,           "--task", std::to_string(task), "--address-file", file.string(),
      "--threads",    "1",      "--log-level",        "error"};
  for (const std::string& address : addresses_) command.insert(command.end(), {"--seed", address});
  pids_.push_back(start(command));
  const auto end = std::chrono::steady_clock::now() + kStartPatience;
  std::string address;
  while (!(std::ifstream(file) >> address)) {  // the file appears complete
    if (waitpid(pids_.back(), nullptr, WNOHANG) != 0) {
      pids_.pop_back();
      throw Error(Errc::peer_lost, "node ", task, " ended before it listened; see above");
    }
    if (std::chrono::steady_clock::now() > end)
      throw Error(Errc::timeout, "node ", task, " does not listen");
    std::this_thread::sleep_for(kLookEvery);
  }
  addresses_.push_back(address);
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

std::vector<std::string> Nodes::names() const {
  std::vector<std::string> out;
  for (size_t i = 0; i < pids_.size(); ++i)
    out.push_back("/job:" + job_ + "/task:" + std::to_string(i));
  return out;
}

}  // namespace troupe::bench

// Implements bench/nodes.hpp.
#include "bench/nodes.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <iostream>

#include "troupe/node.hpp"

namespace troupe::bench {
namespace {

std::atomic<bool> stop{false};

// The child: writes its address to `out`, then runs until SIGTERM.
[[noreturn]] void be_node(const std::string& job, int task, const std::vector<std::string>& seeds,
                          int out) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  signal(SIGTERM, [](int) { stop = true; });
  NodeOptions options;
  options.cluster = "bench";
  options.job = job;
  options.task = task;
  options.seeds = seeds;
  options.process.threads = 1;
  options.process.log = [](LogLevel level, const std::string& line) {
    if (level >= LogLevel::error) std::cerr << line << "\n";
  };
  options.on_listening = [out](const std::string& address) {
    const std::string line = address + "\n";
    if (write(out, line.data(), line.size()) < 0) _exit(74);
    close(out);
  };
  int code = 0;
  try {
    run_node(options, stop);
  } catch (const Error& e) {  // of a forked child nobody else hears
    std::cerr << "node: " << e.what() << "\n";
    code = exit_code(e.code());
  }
  _exit(code);
}

}  // namespace

Nodes::Nodes(const std::string& job, int count) : job_(job) {
  for (int i = 0; i < count; ++i) {
    int ends[2];
    if (pipe(ends) != 0) throw Error(Errc::io, "no pipe");
    const pid_t pid = fork();
    if (pid < 0) throw Error(Errc::io, "cannot start a node");
    if (pid == 0) {
      close(ends[0]);
      be_node(job, i, addresses_, ends[1]);
    }
    close(ends[1]);
    pids_.push_back(pid);
    std::string address;
    char c = 0;
    while (read(ends[0], &c, 1) == 1 && c != '\n') address += c;
    close(ends[0]);
    if (address.empty()) throw Error(Errc::peer_lost, "node ", i, " did not start");
    addresses_.push_back(address);
  }
}

Nodes::~Nodes() {
  for (pid_t pid : pids_) kill(pid, SIGTERM);
  for (pid_t pid : pids_) waitpid(pid, nullptr, 0);
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

// Starts, signals and ends the processes of a cluster under chaos.
#include "apps/troupe/chaos/cluster.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "apps/actor-node/local_cluster.hpp"
#include "apps/console_log.hpp"
#include "apps/plugins.hpp"
#include "troupe/error.hpp"

using troupe::Errc;
using troupe::Error;
using troupe::detail::concat;

namespace {

// A row of the file of TROUPE_STEPS_OUT: a name, and a number in its last eight bytes.
constexpr size_t kRowBytes = 128, kNameBytes = 120, kRowsMax = 1024;

// Read before chaos has mounts of its own: from there the path may lead nowhere.
const std::filesystem::path kOurFolder = [] {
  std::error_code none;
  return std::filesystem::read_symlink("/proc/self/exe", none).parent_path();
}();

std::string file_of(const std::string& process, const char* kind) {
  std::string out = process + kind;
  std::replace(out.begin(), out.end(), '/', '-');
  return out;
}

}  // namespace

ChaosCluster::ChaosCluster(const ClusterFlags& flags, std::filesystem::path folder,
                           Proxies& proxies)
    : flags_(flags), folder_(std::move(folder)), proxies_(proxies) {
  std::error_code ignored;
  for (const std::string& node : flags_.processes.nodes()) set_away(node, false);
  std::filesystem::remove(folder_ / "listen.spec", ignored);
  steps_ = open((folder_ / "steps").c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const int log =
      open((folder_ / "up.log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (steps_ < 0 || log < 0 || ftruncate(steps_, kRowBytes * kRowsMax) != 0)
    throw Error(Errc::io, "cannot write into ", folder_.string(), ": ", std::strerror(errno));
  Spawn what;
  what.file = kOurFolder / "actor-node";
  what.command = {"actor-node",     "up",
                  "--ps",           std::to_string(flags_.processes.ps),
                  "--workers",      std::to_string(flags_.processes.workers),
                  "--threads",      std::to_string(flags_.threads),
                  "--restarts",     std::to_string(flags_.restarts),
                  "--frozen-after", concat(flags_.frozen_after),
                  "--run-dir",      folder_.string()};
  for (const std::string& path : absolute_paths(flags_.plugins))
    what.command.insert(what.command.end(), {"--plugin", path});
  for (const std::string& node : flags_.processes.nodes())
    what.command.insert(what.command.end(), {"--announce", node + "=" + proxies_.add(node)});
  // The program is a child of ours; this one keeps the cluster until we end it.
  what.command.insert(what.command.end(), {"sleep", "infinity"});
  what.output = log;
  what.own_group = true;
  up_ = spawn(what, console_voice("text", "troupe chaos"));
  close(log);
}

ChaosCluster::~ChaosCluster() {
  if (steps_ >= 0) close(steps_);
}

bool ChaosCluster::ready() {
  if (!cluster_.empty()) return true;
  if (!std::filesystem::exists(folder_ / "listen.spec")) return false;  // written after the others
  const auto listening = troupe::read_cluster_spec(folder_ / "listen.spec");
  for (const auto& [job, addresses] : listening.jobs)
    for (size_t task = 0; task < addresses.size(); ++task)
      proxies_.lead(concat(job, "/", task), addresses[task]);
  for (const std::string& address : troupe::read_cluster_spec(folder_ / "cluster.spec").addresses())
    cluster_ += (cluster_.empty() ? "" : ",") + address;
  return true;
}

void ChaosCluster::start_program(const std::vector<std::string>& command, int output) {
  Spawn what;
  what.command = command;
  what.environment = {{"TROUPE_CLUSTER", cluster_},
                      {"TROUPE_CLUSTER_NAME", "troupe"},
                      {"TROUPE_PS", std::to_string(flags_.processes.ps)},
                      {"TROUPE_WORKERS", std::to_string(flags_.processes.workers)},
                      {"TROUPE_RUN_DIR", folder_.string()},
                      {"TROUPE_SECRET_FILE", (folder_ / "secret").string()},
                      {"TROUPE_STEPS_OUT", (folder_ / "steps").string()},
                      {"TROUPE_ANNOUNCE", "none"}};  // nodes would dial it past the proxies
  if (!flags_.plugins.empty())
    what.environment.emplace_back(kPluginsVariable, with_colons(absolute_paths(flags_.plugins)));
  what.lines = output;
  what.own_group = true;
  program_ = spawn(what, console_voice("text", "troupe chaos"));
}

pid_t ChaosCluster::pid_of(const std::string& process) const {
  if (process == "program") return program_;
  pid_t pid = 0;
  std::ifstream(folder_ / file_of(process, ".pid")) >> pid;
  return pid > 1 ? pid : 0;
}

void ChaosCluster::signal(const std::string& process, pid_t pid, int number) const {
  if (pid <= 1 || pid_of(process) != pid) return;  // the process has ended
  kill(process == "program" ? -pid : pid, number);
}

void ChaosCluster::set_away(const std::string& node, bool away) const {
  const std::filesystem::path file = folder_ / file_of(node, ".away");
  std::error_code ignored;
  if (away)
    std::ofstream(file) << "troupe chaos\n";
  else
    std::filesystem::remove(file, ignored);
}

StepsByWorker ChaosCluster::steps() const {
  StepsByWorker out;
  char row[kRowBytes];
  for (size_t i = 0; i < kRowsMax; ++i) {
    if (pread(steps_, row, sizeof row, static_cast<off_t>(i * kRowBytes)) != sizeof row || !*row)
      break;
    row[kNameBytes - 1] = 0;
    const std::string name = row, job = "/job:worker/task:";
    uint64_t count = 0;
    std::memcpy(&count, row + kNameBytes, sizeof count);
    if (name.rfind(job, 0) == 0) out["worker/" + name.substr(job.size())] = count;
  }
  return out;
}

std::string ChaosCluster::last_words() const {
  std::string last;
  std::ifstream in(folder_ / "up.log");
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) last = line;
  return last;
}

bool ChaosCluster::ended(pid_t pid) {
  if (pid == up_) up_ = 0;
  if (pid != program_) return false;
  kill(-pid, SIGKILL);  // children that it left in its group
  program_ = 0;
  return true;
}

void ChaosCluster::stop(int number) {
  if (program_ > 0) kill(-program_, number), kill(-program_, SIGCONT);
  for (const std::string& node : flags_.processes.nodes()) signal(node, pid_of(node), SIGCONT);
  if (up_ > 0) kill(up_, SIGTERM);
}

void ChaosCluster::kill_all() {
  if (program_ > 0) kill(-program_, SIGKILL);
  if (up_ > 0) kill(up_, SIGKILL);  // the nodes die with it
}

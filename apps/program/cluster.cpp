// Reads the flags and the variables that say where a cluster is.
#include "apps/program/cluster.hpp"

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "troupe/cluster.hpp"

using namespace troupe;

namespace {

constexpr int kTasksMax = 1024;  // a mesh has no more members
constexpr int kWorkers = 2;      // of a cluster that does not say how many it has

// How many tasks a variable of the environment names; nothing if it is not set.
std::optional<int> tasks_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (!text) return std::nullopt;
  int count = -1;
  const char* end = text + std::strlen(text);
  const auto [read, error] = std::from_chars(text, end, count);
  if (error != std::errc() || read != end || count < 0 || count > kTasksMax)
    throw Error(Errc::invalid_argument, variable, " wants a number of tasks from 0 to ", kTasksMax,
                ", got \"", text, "\"");
  return count;
}

}  // namespace

Session Cluster::open(Graph& graph, const ProcessOptions& process) const {
  if (addresses.empty()) return Session::local(graph, process);
  ConnectOptions connect;
  connect.process = process;
  connect.cluster = name;
  connect.wait_for = tasks;
  connect.timeout = patience;
  connect.secret_file = secret_file;
  connect.tls_dir = tls_dir;
  return Session::connect(graph, addresses, connect);
}

std::string Cluster::device(int64_t part) const {
  return workers > 0 ? detail::concat("/job:worker/task:", part % workers) : "";
}

Cluster find_cluster(const std::optional<std::string>& spec_file,
                     const std::optional<std::string>& cluster_name, int wait_seconds) {
  Cluster out;
  if (const char* name = std::getenv("TROUPE_CLUSTER_NAME")) out.name = name;
  if (cluster_name) out.name = *cluster_name;
  out.patience = std::chrono::seconds(wait_seconds);
  if (out.patience < std::chrono::seconds(1))
    throw Error(Errc::invalid_argument, "--wait wants at least 1 s, got ", wait_seconds);
  const auto add = [&](const char* job, int count) {
    for (int i = 0; i < count; ++i) out.tasks.push_back(detail::concat("/job:", job, "/task:", i));
  };
  if (spec_file) {
    const ClusterSpec spec = read_cluster_spec(*spec_file);
    for (const std::string& address : spec.addresses())
      out.addresses += (out.addresses.empty() ? "" : ",") + address;
    if (spec.jobs.count("ps")) add("ps", static_cast<int>(spec.jobs.at("ps").size()));
    out.workers = static_cast<int>(spec.jobs.at("worker").size());
    add("worker", out.workers);
  } else if (const char* addresses = std::getenv("TROUPE_CLUSTER")) {
    if (!*addresses)
      throw Error(Errc::invalid_argument,
                  "TROUPE_CLUSTER is empty; set it to host:port,host:port or unset it");
    const std::optional<int> ps = tasks_in("TROUPE_PS"), workers = tasks_in("TROUPE_WORKERS");
    out.addresses = addresses;
    add("ps", ps.value_or(0));
    out.workers = workers.value_or(kWorkers);
    add("worker", workers.value_or(0));
  }
  return out;
}

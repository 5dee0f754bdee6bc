// actor-node join: one node of a cluster, until SIGTERM or until the cluster refuses it.
//
// Which task it is and where it listens is said by flags (--job, --task, --listen, --seed) or by a
// cluster spec, in a file (--spec) or word by word (--hosts). Without --task it takes that of its
// certificate (--tls), or a free one: the first one of the spec whose address is free on this
// machine, or the one that members name.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <optional>

#include "apps/actor-node/signals.hpp"
#include "apps/actor-node/verbs.hpp"
#include "apps/program/write_aside.hpp"
#include "apps/console_log.hpp"
#include "apps/failpoints.hpp"
#include "apps/plugins.hpp"
#include "troupe/cluster.hpp"
#include "troupe/custom_op.hpp"

using troupe::ClusterSpec;
using troupe::Errc;
using troupe::Error;
using troupe::NodeOptions;

void add_node_flags(Flags& flags, NodeFlags& to) {
  flags.add("cluster", &to.cluster, "name of the cluster; all nodes must agree");
  flags.add("threads", &to.threads, "lanes for kernels and actors; 0: one per core");
  flags.add("memory-mib", &to.memory_mib, "budget of each CPU device, MiB");
  flags.add("plugin", &to.plugins,
            "shared library with ops of one's own; may be given again; all nodes and programs must "
            "have the same ones");
  flags.add("data-dir", &to.data_dirs,
            "folder below which sources of data are read; may be given again. Without one, any "
            "process of the cluster reads all files of this user");
  flags.add("lease", &to.lease,
            "seconds after which a node ends the sessions of a program that is away; 0: never");
  flags.add(
      "drain", &to.drain,
      "seconds that a node which is told to stop (SIGTERM) waits until trainings have moved its "
      "replicas to others; 0, and at a second signal: it ends at once");
  flags.add("silence", &to.silence,
            "seconds after which a process that is silent counts as lost; with up also for PROGRAM "
            "(default: those in TROUPE_SILENCE, or 1.5)");
  flags.add("log-format", &to.log_format, "text or json");
  flags.add("log-level", &to.log_level, "trace, debug, info, warn or error");
  flags.add("insecure", &to.insecure,
            "allow addresses beyond loopback without --tls: whoever is on the network may control "
            "the cluster");
  flags.add(
      "secret-file", &to.secret_file,
      "file of 16 to 1024 bytes that all processes of the cluster prove to know; readable by "
      "this user alone. Without it, join takes the one that TROUPE_SECRET_FILE names, and up makes "
      "one of its own, RUN-DIR/secret");
  add_failpoints(flags, to.failpoints);
}

void check_node_flags(const NodeFlags& given) {
  constexpr int kThreadsMax = 4096;
  log_level(given.log_level);
  if (!troupe::is_cluster_name(given.cluster))
    throw Error(Errc::invalid_argument, "--cluster wants 1 to 63 letters, digits, _ - or ., got \"",
                given.cluster, "\"");
  if (given.secret_file && given.secret_file->empty())
    throw Error(Errc::invalid_argument, "--secret-file names no file");
  const char* const points = std::getenv("TROUPE_FAILPOINTS");
  if (given.failpoints || points)
    troupe::set_fail_points(given.failpoints ? *given.failpoints : points);
  if (given.threads < 0 || given.threads > kThreadsMax)
    throw Error(Errc::invalid_argument, "--threads wants 0 (one per core) to ", kThreadsMax,
                ", got ", given.threads);
  if (given.memory_mib < 1 || given.memory_mib > (int64_t{1} << 30))
    throw Error(Errc::invalid_argument, "--memory-mib wants 1 to ", int64_t{1} << 30, ", got ",
                given.memory_mib);
  if (!(given.lease == 0 || (given.lease >= 1 && given.lease <= 31'536'000)))
    throw Error(Errc::invalid_argument, "--lease wants 0 (never) or 1 to 31536000 s, got ",
                given.lease);
  if (!(given.drain >= 0 && given.drain <= 3600))
    throw Error(Errc::invalid_argument, "--drain wants 0 (at once) to 3600 s, got ", given.drain);
  if (given.silence && !(*given.silence >= 0.5 && *given.silence <= 3600))
    throw Error(Errc::invalid_argument, "--silence wants 0.5 to 3600 s, got ", *given.silence);
}

namespace {

struct JoinOptions {
  std::optional<std::string> job, listen, announce, spec, address_file;
  std::optional<int> task, alive_fd, listen_fd, local_fd;
  std::optional<int64_t> incarnation;
  std::optional<std::string> tls;
  std::vector<std::string> seeds, hosts;
  int cpu_devices = 1;
  NodeFlags node;
};

void add_join(Flags& flags, JoinOptions& to) {
  flags.add("job", &to.job, "ps, worker, chief, evaluator or client (default: worker)");
  flags.add("task", &to.task,
            "number within the job; without it: that of the certificate, or one that is free");
  flags.add("incarnation", &to.incarnation,
            "number of this start, larger than those of earlier starts of the task (default: from "
            "the clock, in microseconds, times 256)");
  flags.add("listen", &to.listen,
            "address for the others; port 0: any free one (default: 127.0.0.1:0)");
  flags.add("announce", &to.announce,
            "address that the others dial, also as a --seed, where a relay, NAT or container leads "
            "from it to --listen; none: they do not dial this node (default: that of --listen)");
  flags.add("seed", &to.seeds, "address of any member; may be given again");
  flags.add("spec", &to.spec,
            "file that says where all nodes listen, instead of --listen and --seed; lines of: job "
            "= host:port, host:port");
  flags.add("hosts", &to.hosts, "a line of such a file; may be given again");
  flags.add("tls", &to.tls,
            "folder of ca.pem, cert.pem and key.pem: links are encrypted, and names are proved by "
            "certificates (actor-node certs); without it: the one that TROUPE_TLS_DIR names");
  flags.add("cpu-devices", &to.cpu_devices, "virtual CPU devices");
  flags.add("address-file", &to.address_file, "write the address to this file once listening");
  flags.add("alive-fd", &to.alive_fd,
            "for supervisors: write a byte to this open file five times a second, as long as the "
            "network thread runs");
  flags.add("listen-fd", &to.listen_fd,
            "for supervisors: this open file is a socket that listens at --listen already");
  flags.add("local-fd", &to.local_fd,
            "for supervisors: beside --listen-fd, the socket for processes of this machine");
  add_node_flags(flags, to.node);
}

std::optional<ClusterSpec> spec_of(const JoinOptions& given) {
  if (!given.spec && given.hosts.empty()) return std::nullopt;
  if (given.listen || given.announce || !given.seeds.empty())
    throw Error(Errc::invalid_argument,
                given.listen     ? "--listen"
                : given.announce ? "--announce"
                                 : "--seed",
                " does not go with a cluster spec, which says where everybody listens");
  if (given.hosts.empty()) return troupe::read_cluster_spec(*given.spec);
  if (given.spec)
    throw Error(Errc::invalid_argument, "--spec and --hosts both give a cluster spec; choose one");
  std::string text;
  for (const std::string& line : given.hosts) text += line + "\n";
  return troupe::parse_cluster_spec(text, "--hosts");
}

// Throws: Error(bad_configuration) for a job that the spec does not have.
std::vector<int> tasks_of(const ClusterSpec& spec, const std::string& job) {
  spec.address(job, 0);
  std::vector<int> out(spec.jobs.at(job).size());
  std::iota(out.begin(), out.end(), 0);
  return out;
}

// Programs are no nodes, and get other numbers.
std::vector<std::string> nodes_of(const ClusterSpec& spec) {
  std::vector<std::string> out = spec.tasks();
  std::erase_if(out, [](const std::string& task) { return task.rfind("/job:client/", 0) == 0; });
  return out;
}

void write_address(const std::string& file, const std::string& address) {
  if (const std::error_code error = write_aside(file, address + "\n"))
    throw Error(Errc::io, "cannot write ", file, ", which --address-file names: ", error.message(),
                "; choose another place");
}

NodeOptions node_of(const JoinOptions& given) {
  constexpr int kDevicesMax = 1024;
  check_node_flags(given.node);
  if (given.cpu_devices < 1 || given.cpu_devices > kDevicesMax)
    throw Error(Errc::invalid_argument, "--cpu-devices wants 1 to ", kDevicesMax, ", got ",
                given.cpu_devices);
  if (given.incarnation.value_or(1) < 1)
    throw Error(Errc::invalid_argument, "--incarnation wants a number above 0, got ",
                *given.incarnation);
  NodeOptions out;
  const auto millis = [](double seconds) {
    return std::chrono::milliseconds(std::llround(seconds * 1000));
  };
  out.lease = millis(given.node.lease);
  if (given.node.silence) out.silence = millis(*given.node.silence);
  out.at_once = &stop_at_once;
  out.drain = millis(given.node.drain);
  out.incarnation = static_cast<uint64_t>(given.incarnation.value_or(0));
  out.cluster = given.node.cluster;
  out.job = given.job.value_or("worker");
  if (given.listen) out.listen = *given.listen;
  if (given.announce) out.announce = *given.announce;
  out.seeds = given.seeds;
  out.insecure = given.node.insecure;
  out.secret_file = given.node.secret_file.value_or("");
  if (given.tls && given.tls->empty()) throw Error(Errc::invalid_argument, "--tls names no folder");
  out.tls_dir = given.tls.value_or("");
  out.process.threads = given.node.threads;
  out.process.cpu_devices = given.cpu_devices;
  out.process.memory_budget_bytes = given.node.memory_mib << 20;
  out.process.log_level = log_level(given.node.log_level);
  out.process.data_dirs = given.node.data_dirs;
  out.process.ops = troupe::ops_with_plugins(absolute_paths(given.node.plugins));
  if (given.listen_fd && !given.listen)
    throw Error(Errc::invalid_argument, "--listen-fd wants --listen, the address of its socket");
  if (given.local_fd && !given.listen_fd)
    throw Error(Errc::invalid_argument, "--local-fd goes with --listen-fd");
  for (const int fd : {given.listen_fd.value_or(3), given.local_fd.value_or(3)})
    if (fd < 3)
      throw Error(Errc::invalid_argument, "file ", fd, " is not an open file of a supervisor");
  out.listen_fd = given.listen_fd.value_or(-1);
  out.local_fd = given.local_fd.value_or(-1);
  if (given.alive_fd) {
    const int fd = *given.alive_fd;
    if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
      throw Error(Errc::invalid_argument, "--alive-fd ", fd, " is not an open file");
    out.on_alive = [fd] { [[maybe_unused]] const ssize_t n = write(fd, ".", 1); };
  }
  return out;
}

// Runs the node as its task; `listening` becomes true when its address is its own.
void run(NodeOptions node, const JoinOptions& given, bool& listening) {
  node.process.log =
      console_log(given.node.log_format, "/job:" + node.job + "/task:" + std::to_string(node.task));
  if (!given.job) node.process.log(troupe::LogLevel::info, "no --job was given: this is a worker");
  node.on_listening = [&](const std::string& address) {
    listening = true;
    const auto none = [](const std::string& given, const char* variable) {
      return given.empty() && !std::getenv(variable);
    };
    if (none(node.secret_file, "TROUPE_SECRET_FILE") && none(node.tls_dir, "TROUPE_TLS_DIR") &&
        node.process.log_level <= troupe::LogLevel::warn)
      node.process.log(troupe::LogLevel::warn,
                       troupe::detail::concat("no --secret-file: ",
                                              node.insecure ? "everybody who reaches this address"
                                                            : "all users of this machine",
                                              " can join the cluster and control this process"));
    if (given.address_file) write_address(*given.address_file, address);
  };
  troupe::run_node(node, stop_requested);
}

// As one of `tasks` of the spec: the first whose address is free. The system decides who has an
// address, so two nodes that are started at once get different tasks.
void run_by_spec(NodeOptions node, const ClusterSpec& spec, const std::vector<int>& tasks,
                 const JoinOptions& given) {
  std::string taken;
  for (int task : tasks) {
    node.task = task;
    node.listen = spec.address(node.job, task);
    node.seeds.clear();
    for (const std::string& address : spec.addresses())
      if (address != node.listen) node.seeds.push_back(address);
    node.wait_for = nodes_of(spec);
    bool listening = false;
    try {
      return run(node, given, listening);
    } catch (const Error& e) {
      if (listening || e.code() != Errc::io) throw;
      taken += troupe::detail::concat(taken.empty() ? "" : "; ", "/job:", node.job, "/task:", task,
                                      ": ", e.what());
    }
  }
  throw Error(Errc::io, spec.origin, ": no task of job ", node.job,
              " is free on this machine. Does it run already? ", taken);
}

int run_as_told(const JoinOptions& given) {
  NodeOptions node = node_of(given);
  const std::optional<ClusterSpec> spec = spec_of(given);
  // Before ports are tried, as an unreadable file says nothing of a task.
  troupe::check_secret_file(node.secret_file);
  node.task = given.task.value_or(-1);
  const int certified = troupe::certified_task(node);
  const bool told = given.task || certified >= 0;
  node.task = given.task.value_or(std::max(certified, 0));
  if (!told && !spec && !node.seeds.empty()) {
    node.process.log = console_log(given.node.log_format, "/job:" + node.job);
    node.task = troupe::draw_task(node);
  }

  catch_signals({SIGTERM, SIGINT});
  signal(SIGPIPE, SIG_IGN);  // neither a closed log nor a lost supervisor ends a node, nor does
  signal(SIGXFSZ, SIG_IGN);  // a file that may not grow: its writer gets an error
  if (spec) {
    run_by_spec(node, *spec, told ? std::vector{node.task} : tasks_of(*spec, node.job), given);
  } else {
    bool listening = false;
    run(node, given, listening);
  }
  return 0;
}

}  // namespace

int join(const std::vector<std::string>& arguments) {
  JoinOptions given;
  Flags flags("actor-node join", "actor-node join: one node of a cluster");
  add_join(flags, given);
  if (!flags.parse(arguments)) return 0;
  return exit_code_of(console_voice(given.node.log_format, "actor-node join"), [&] {
    return list_failpoints(given.node.failpoints) ? 0 : run_as_told(given);
  });
}

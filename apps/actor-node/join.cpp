// actor-node join: one node of a cluster, until SIGTERM or until the cluster refuses it.
//
// Which task it is and where it listens is said by flags (--job, --task, --listen, --seed) or by a
// cluster spec, in a file (--spec) or word by word (--hosts). Without --task it takes a free one:
// the first one of the spec whose address is free on this machine, or the one that members name.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <numeric>
#include <optional>

#include "apps/actor-node/signals.hpp"
#include "apps/actor-node/verbs.hpp"
#include "apps/console_log.hpp"
#include "apps/plugins.hpp"
#include "troupe/cluster.hpp"
#include "troupe/custom_op.hpp"

namespace options = boost::program_options;
using troupe::ClusterSpec;
using troupe::Errc;
using troupe::Error;
using troupe::NodeOptions;

options::options_description common_options() {
  options::options_description out("common options");
  out.add_options()("cluster", options::value<std::string>()->default_value("troupe"),
                    "name of the cluster; all nodes must agree")(
      "threads", options::value<int>()->default_value(0),
      "lanes for kernels and actors; 0: one per core")(
      "memory-mib", options::value<int64_t>()->default_value(8192),
      "budget of each CPU device, MiB")(
      "plugin", options::value<std::vector<std::string>>()->composing(),
      "shared library with ops of one's own; may be given again; all nodes and programs must have "
      "the same ones")("log-format", options::value<std::string>()->default_value("text"),
                       "text or json")("log-level",
                                       options::value<std::string>()->default_value("info"),
                                       "trace, debug, info, warn or error")(
      "insecure", "allow addresses beyond loopback; there is no TLS on the links")("help",
                                                                                   "print this");
  return out;
}

void check_common(const options::variables_map& given) {
  constexpr int kThreadsMax = 4096, kDevicesMax = 1024;
  log_level(given["log-level"].as<std::string>());
  const std::string cluster = given["cluster"].as<std::string>();
  if (cluster.empty() || std::any_of(cluster.begin(), cluster.end(),
                                     [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
    throw Error(Errc::invalid_argument, "--cluster wants a name of printable characters");
  const int threads = given["threads"].as<int>();
  if (threads < 0 || threads > kThreadsMax)
    throw Error(Errc::invalid_argument, "--threads wants 0 (one per core) to ", kThreadsMax,
                ", got ", threads);
  if (given.count("cpu-devices"))
    if (const int n = given["cpu-devices"].as<int>(); n < 1 || n > kDevicesMax)
      throw Error(Errc::invalid_argument, "--cpu-devices wants 1 to ", kDevicesMax, ", got ", n);
  const int64_t memory_mib = given["memory-mib"].as<int64_t>();
  if (memory_mib < 1 || memory_mib > (int64_t{1} << 30))
    throw Error(Errc::invalid_argument, "--memory-mib wants 1 to ", int64_t{1} << 30, ", got ",
                memory_mib);
}

std::error_code write_aside(const std::filesystem::path& file, const std::string& text) {
  const std::filesystem::path part = file.string() + ".part";
  std::error_code error;
  errno = 0;
  if (std::ofstream out(part); out << text && out.flush())
    std::filesystem::rename(part, file, error);
  else
    error.assign(errno ? errno : EIO, std::generic_category());
  return error;
}

namespace {

options::options_description join_options() {
  options::options_description out("actor-node join: one node of a cluster");
  out.add_options()("job", options::value<std::string>()->default_value("worker"),
                    "ps, worker, chief, evaluator or client")(
      "task", options::value<int>(), "number within the job; without it: one that is free")(
      "listen", options::value<std::string>(),
      "address for the others; port 0: any free one (default: 127.0.0.1:0)")(
      "seed", options::value<std::vector<std::string>>()->composing(),
      "address of any member; may be given again")(
      "spec", options::value<std::string>(),
      "file that says where all nodes listen, instead of --listen and --seed; lines of: job = "
      "host:port, host:port")("hosts", options::value<std::vector<std::string>>()->composing(),
                              "a line of such a file; may be given again")(
      "cpu-devices", options::value<int>()->default_value(1), "virtual CPU devices")(
      "address-file", options::value<std::string>(),
      "write the address to this file once listening")(
      "alive-fd", options::value<int>(),
      "for supervisors: write a byte to this open file five times a second, as long as the "
      "network thread runs");
  return out.add(common_options());
}

std::optional<ClusterSpec> spec_of(const options::variables_map& given) {
  if (!given.count("spec") && !given.count("hosts")) return std::nullopt;
  for (const char* other : {"listen", "seed"})
    if (given.count(other))
      throw Error(Errc::invalid_argument, "--", other,
                  " does not go with a cluster spec, which says where everybody listens");
  if (!given.count("hosts")) return troupe::read_cluster_spec(given["spec"].as<std::string>());
  if (given.count("spec"))
    throw Error(Errc::invalid_argument, "--spec and --hosts both give a cluster spec; choose one");
  std::string text;
  for (const std::string& line : given["hosts"].as<std::vector<std::string>>()) text += line + "\n";
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

NodeOptions node_of(const options::variables_map& given) {
  check_common(given);
  NodeOptions out;
  out.cluster = given["cluster"].as<std::string>();
  out.job = given["job"].as<std::string>();
  if (given.count("listen")) out.listen = given["listen"].as<std::string>();
  if (given.count("seed")) out.seeds = given["seed"].as<std::vector<std::string>>();
  out.insecure = given.count("insecure") > 0;
  out.process.threads = given["threads"].as<int>();
  out.process.cpu_devices = given["cpu-devices"].as<int>();
  out.process.memory_budget_bytes = given["memory-mib"].as<int64_t>() << 20;
  out.process.log_level = log_level(given["log-level"].as<std::string>());
  out.process.ops = troupe::ops_with_plugins(plugins_named(given));
  if (given.count("alive-fd")) {
    const int fd = given["alive-fd"].as<int>();
    if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
      throw Error(Errc::invalid_argument, "--alive-fd ", fd, " is not an open file");
    out.on_alive = [fd] { [[maybe_unused]] const ssize_t n = write(fd, ".", 1); };
  }
  return out;
}

// Runs the node as its task; `listening` becomes true when its address is its own.
void run(NodeOptions node, const options::variables_map& given, bool& listening) {
  node.process.log = console_log(given["log-format"].as<std::string>(),
                                 "/job:" + node.job + "/task:" + std::to_string(node.task));
  if (given["job"].defaulted())
    node.process.log(troupe::LogLevel::info, "no --job was given: this is a worker");
  node.on_listening = [&](const std::string& address) {
    listening = true;
    if (given.count("address-file"))
      write_address(given["address-file"].as<std::string>(), address);
  };
  troupe::run_node(node, stop_requested);
}

// As one of `tasks` of the spec: the first whose address is free. The system decides who has an
// address, so two nodes that are started at once get different tasks.
void run_by_spec(NodeOptions node, const ClusterSpec& spec, const std::vector<int>& tasks,
                 const options::variables_map& given) {
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

int run_as_told(const options::variables_map& given) {
  NodeOptions node = node_of(given);
  const std::optional<ClusterSpec> spec = spec_of(given);
  if (given.count("task")) {
    node.task = given["task"].as<int>();
  } else if (!spec && !node.seeds.empty()) {
    node.process.log = console_log(given["log-format"].as<std::string>(), "/job:" + node.job);
    node.task = troupe::draw_task(node);
  }

  catch_signals({SIGTERM, SIGINT});
  signal(SIGPIPE, SIG_IGN);  // neither a closed log nor a lost supervisor ends a node, nor does
  signal(SIGXFSZ, SIG_IGN);  // a file that may not grow: its writer gets an error
  if (spec) {
    run_by_spec(node, *spec,
                given.count("task") ? std::vector{node.task} : tasks_of(*spec, node.job), given);
  } else {
    bool listening = false;
    run(node, given, listening);
  }
  return 0;
}

}  // namespace

int join(const std::vector<std::string>& arguments) {
  const options::options_description what = join_options();
  options::variables_map given;
  options::store(options::command_line_parser(arguments).options(what).positional({}).run(), given);
  options::notify(given);
  if (given.count("help")) {
    std::cout << what << "\n";
    return 0;
  }
  return exit_code_of(console_voice(given["log-format"].as<std::string>(), "actor-node join"),
                      [&] { return run_as_told(given); });
}

// troupe doctor: what this machine is, and what will be used of it.
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "apps/flags.hpp"
#include "apps/plugins.hpp"
#include "apps/troupe/verbs.hpp"
#include "troupe/cluster.hpp"
#include "troupe/device.hpp"
#include "troupe/custom_op.hpp"

using namespace troupe;

namespace {

std::string limit_of(decltype(RLIMIT_AS) what, const char* unit, rlim_t divisor) {
  rlimit limit{};
  if (getrlimit(what, &limit) != 0) return "unknown";
  if (limit.rlim_cur == RLIM_INFINITY) return "unlimited";
  return detail::concat(limit.rlim_cur / divisor, unit);
}

std::string found_in_path(const char* program) {
  const char* const path = std::getenv("PATH");
  for (std::string rest = path ? path : ""; !rest.empty();) {
    const size_t end = rest.find(':');
    const std::filesystem::path file = std::filesystem::path(rest.substr(0, end)) / program;
    if (access(file.c_str(), X_OK) == 0) return file.string();
    rest.erase(0, end == rest.npos ? end : end + 1);
  }
  return {};
}

// Makes such a socket, at a name that nobody dials.
const char* local_sockets() {
  const int fd = listen_local(detail::concat("doctor:", getpid()));
  if (fd < 0) return "none: processes of this machine use TCP";
  close(fd);
  return "used between processes of this machine, without TLS (TROUPE_LOCAL_SOCKETS=0: not)";
}

}  // namespace

int doctor(const std::vector<std::string>& arguments) {
  std::vector<std::string> plugins;
  Flags flags("troupe doctor",
              "troupe doctor [options]: what this machine is, and what will be used of it");
  flags.add("plugin", &plugins, "shared library to try; may be given again");
  if (!flags.parse(arguments)) return 0;
  const Machine machine = this_machine();
  std::string instructions;
  for (const std::string& one : machine.instructions)
    instructions += (instructions.empty() ? "" : ", ") + one;
  const int64_t free_pages = sysconf(_SC_AVPHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  const std::string dot = found_in_path("dot");
  std::cout << "processor       " << (machine.processor.empty() ? "unknown" : machine.processor)
            << "\n"
            << "instructions    our kernels use " << machine.uses << "; there are " << instructions
            << " (TROUPE_ISA names another)\n"
            << "cores           " << machine.cores << " (--threads 0 uses them all)\n"
            << "memory          " << (machine.memory_bytes >> 20) << " MiB, of which "
            << ((free_pages * page) >> 20) << " MiB are free now\n"
            << "limits          address space " << limit_of(RLIMIT_AS, " MiB", 1 << 20)
            << ", threads of this user " << limit_of(RLIMIT_NPROC, "", 1) << ", open files "
            << limit_of(RLIMIT_NOFILE, "", 1) << " (ulimit -a)\n"
            << "CUDA devices    " << machine.cuda_devices << "\n"
            << "local sockets   " << local_sockets() << "\n"
            << "ops             " << builtin_ops()->all().size() << " built in (troupe ops)\n"
            << "plugins         ABI version " << kPluginAbi << "\n"
            << "Graphviz        "
            << (dot.empty() ? "no dot in PATH: troupe graph writes text and DOT, but no SVG" : dot)
            << "\n";
  Registry registry;
  for (const Op* op : builtin_ops()->all()) registry.add(*op);
  for (const std::string& path : plugins_for(plugins)) {
    const Plugin plugin = load_plugin(registry, path);
    std::cout << "plugin          " << plugin.path << ":";
    for (const std::string& op : plugin.ops) std::cout << " " << op;
    std::cout << "\n";
  }
  return 0;
}

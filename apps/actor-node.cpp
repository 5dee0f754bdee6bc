// actor-node: a node of a cluster, and a whole local cluster.
//
//   actor-node join --job ps --task 0 --listen 127.0.0.1:7000    one node, until SIGTERM
//   actor-node up --ps 2 --workers 2 PROGRAM [ARGS...]           nodes on this host, PROGRAM on
//   them
//   actor-node certs issue DIR /job:ps/task:0                    its certificate
//
// Its verbs stand in apps/actor-node/; here mistakes become exit codes.
#include <iostream>

#include "apps/actor-node/verbs.hpp"
#include "apps/console_log.hpp"

namespace {

constexpr int kExitUsage = 64;

void usage(std::ostream& out) {
  out << "usage: actor-node up [options] PROGRAM [ARGS...]   a cluster on this host, and PROGRAM "
         "on it\n"
         "       actor-node join [options]                   one node of a cluster, until SIGTERM\n"
         "       actor-node certs init|issue|show ...        certificates, for encrypted links\n"
         "       actor-node up|join|certs --help             the options\n";
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + std::min(argc, 2), argv + argc);
  const std::string verb = argc > 1 ? argv[1] : "";
  return exit_code_of(console_voice("text", "actor-node " + verb), [&] {
    if (verb == "join") return join(arguments);
    if (verb == "up") return up(arguments);
    if (verb == "certs") return certs(arguments);
    if (verb == "help" || verb == "--help") {
      usage(std::cout);
      return 0;
    }
    if (!verb.empty()) std::cerr << "actor-node: unknown verb \"" << verb << "\"\n";
    usage(std::cerr);
    return kExitUsage;
  });
}

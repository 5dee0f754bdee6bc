// Reads where a cluster is, as actor-node join does, and joins it for a visit.
#include "apps/troupe/visit.hpp"

#include <cmath>
#include <cstdlib>

#include "apps/console_log.hpp"
#include "apps/plugins.hpp"
#include "troupe/custom_op.hpp"

using namespace troupe;

void add_visit_flags(Flags& flags, VisitFlags& to, bool one) {
  flags.add("join", &to.join,
            "address of any member of the cluster, host:port; several with commas between them "
            "(default: those in TROUPE_CLUSTER)");
  flags.add("spec", &to.spec, "cluster spec with such addresses, instead of --join");
  flags.add("cluster", &to.cluster,
            "name of the cluster (default: the one in TROUPE_CLUSTER_NAME, or troupe)");
  flags.add("secret-file", &to.secret_file,
            "file of the secret of the cluster; without it: the one that TROUPE_SECRET_FILE names");
  flags.add("tls", &to.tls,
            "folder of ca.pem, cert.pem and key.pem, of a program's name (actor-node certs); "
            "without it: the one that TROUPE_TLS_DIR names");
  flags.add("plugin", &to.plugins,
            "shared library with ops of one's own, as the members have; may be given again");
  flags.add("listen", &to.listen,
            "address for the members, beyond loopback if the program runs on another machine "
            "(default: 127.0.0.1:0)");
  flags.add("announce", &to.announce,
            "address that members dial, where a relay or NAT leads from it to --listen");
  flags.add("insecure", &to.insecure, "allow --listen beyond loopback without --tls");
  flags.add("timeout", &to.timeout, "seconds that a process has for each answer");
  if (one)
    flags.add("job", &to.job,
              "the program to ask: its task, as troupe jobs shows it, or its executable");
}

std::unique_ptr<Visitor> visit(const VisitFlags& given) {
  if (!(given.timeout >= 0.1 && given.timeout <= 3600))
    throw Error(Errc::invalid_argument, "--timeout wants 0.1 to 3600 s, got ", given.timeout);
  if (given.join && given.spec)
    throw Error(Errc::invalid_argument,
                "--join and --spec both say where the cluster is; give one");
  if (given.secret_file && given.secret_file->empty())
    throw Error(Errc::invalid_argument, "--secret-file names no file");
  if (given.tls && given.tls->empty()) throw Error(Errc::invalid_argument, "--tls names no folder");
  NodeOptions node;
  node.job = "client";
  const char* const cluster = std::getenv("TROUPE_CLUSTER_NAME");
  node.cluster = given.cluster.value_or(cluster ? cluster : "troupe");
  if (!is_cluster_name(node.cluster))
    throw Error(Errc::invalid_argument, "--cluster wants 1 to 63 letters, digits, _ - or ., got \"",
                node.cluster, "\"");
  const char* const addresses = std::getenv("TROUPE_CLUSTER");
  if (given.spec) {
    node.seeds = read_cluster_spec(*given.spec).addresses();
  } else if (given.join || addresses) {
    std::string rest = given.join ? *given.join : addresses;
    while (!rest.empty()) {
      const size_t end = rest.find(',');
      if (end != 0) node.seeds.push_back(rest.substr(0, end));
      rest.erase(0, end == rest.npos ? end : end + 1);
    }
  }
  if (node.seeds.empty())
    throw Error(Errc::invalid_argument,
                "no cluster is named: give --join HOST:PORT, the address of any member; actor-node "
                "up writes it into RUN-DIR/cluster.spec, for --spec");
  node.secret_file = given.secret_file.value_or("");
  node.tls_dir = given.tls.value_or("");
  if (given.listen) node.listen = *given.listen;
  node.announce = given.announce.value_or("");
  node.insecure = given.insecure;
  node.process.ops = ops_with_plugins(plugins_for(given.plugins));
  node.process.log = console_voice("text", "troupe");
  return std::make_unique<Visitor>(node,
                                   std::chrono::milliseconds(std::llround(given.timeout * 1000)));
}

std::string name_of(const RunningProgram& program) {
  return program.name.empty() ? program.task
                              : detail::concat(program.task, " (", program.name, ")");
}

RunningProgram choose_program(const std::vector<RunningProgram>& programs,
                              const std::optional<std::string>& job) {
  std::vector<RunningProgram> fit, training;
  std::string names;
  for (const RunningProgram& program : programs) {
    names += (names.empty() ? "" : ", ") + name_of(program);
    if (job && program.task != *job && program.name != *job) continue;
    fit.push_back(program);
    if (!program.phase.empty()) training.push_back(program);
  }
  if (names.empty())
    throw Error(Errc::peer_lost,
                "no training is running in the cluster: no program has joined it, or none that "
                "this machine can reach; on another machine than the program's give --listen an "
                "address that the program can dial");
  if (fit.empty())
    throw Error(Errc::invalid_argument, "no program is called \"", *job, "\"; there are: ", names);
  const std::vector<RunningProgram>& from = training.empty() ? fit : training;
  if (from.size() > 1)
    throw Error(Errc::invalid_argument, "several programs are there: ", names,
                "; choose one by its task: --job ", from.front().task);
  if (!from.front().silent.empty())
    throw Error(Errc::timeout, from.front().task, " does not answer: ", from.front().silent,
                "; give it more time with --timeout, or look at its process");
  return from.front();
}

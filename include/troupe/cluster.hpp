// A node of a cluster: one process that offers its devices to sessions and holds parameter shards;
// the certificates of nodes and programs; failures on purpose; and ClusterSpec, which lists the
// tasks of a cluster and their addresses. Implemented in training/group/node.cpp,
// net/certificates/certificates.cpp, net/link/tls_files.cpp, net/link/local_socket.cpp,
// graph/base/fail_point.cpp and net/wire/cluster_spec.cpp. actor-node is a thin shell around it.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "troupe/session.hpp"

namespace troupe {

struct NodeOptions {
  std::string cluster = "troupe";
  std::string job = "worker";  // or ps, chief, evaluator, client
  int task = 0;
  // Larger for each start of the task, or the cluster refuses the later one. 0: microseconds since
  // 1970, times 256, which a clock that was set back makes smaller.
  uint64_t incarnation = 0;
  std::string listen = "127.0.0.1:0";  // port 0: any free one
  // The address that the others dial, where a relay or NAT leads from it to `listen`; empty: that
  // of `listen`. "none": they do not dial this node, and it dials them.
  std::string announce = {};
  // Sockets that listen at `listen` already, by TCP and of listen_local(), for a supervisor that
  // keeps them while the node is down; -1: the node makes its own.
  int listen_fd = -1, local_fd = -1;
  std::vector<std::string> seeds = {};  // members to join by, "host:port"; empty: this is the first
  // Tasks that the cluster will have, "/job:ps/task:0". Until all have joined, the log names the
  // missing ones from time to time. The node runs all the same.
  std::vector<std::string> wait_for = {};
  ProcessOptions process = {};
  bool insecure = false;  // allow listening beyond loopback without TLS
  std::function<void(const std::string& address)> on_listening = {};  // gets the bound address
  // For a supervisor: called every `alive_every` on the network thread, as long as that thread
  // runs. Silence means to the supervisor what it means to other members: the process is frozen.
  std::function<void()> on_alive = {};
  std::chrono::milliseconds alive_every{200};
  std::string secret_file = {};  // as ConnectOptions::secret_file
  std::string tls_dir = {};      // as ConnectOptions::tls_dir
  // The parts and parameters of a session whose program is away for longer go; the program is then
  // refused. 0: never.
  std::chrono::milliseconds lease = std::chrono::minutes(10);
  // How long a node that is told to stop waits until trainings have moved its replicas to others;
  // 0: it ends at once, as it does where no other process can take them, and when `at_once` is set.
  std::chrono::milliseconds drain = std::chrono::seconds(10);
  const std::atomic<bool>* at_once = nullptr;  // outlives the node
  // A process that is silent for longer counts as lost. 0: the seconds in TROUPE_SILENCE, or 1.5.
  std::chrono::milliseconds silence{0};
};

// Runs until `stop` is set or the node is asked to leave. Throws: Error(bad_configuration) for an
// unknown job, for a secret or key that is no file of this user alone, for a certificate of another
// name, and when the cluster refuses this node, with its reason; Error(peer_lost), to start again,
// if another process drew its node id; Error(io) when one of these files cannot be read, and when
// the port is in use, with what to do; Error(internal) when the node's own actor died;
// Error(device_lost).
void run_node(const NodeOptions& options, const std::atomic<bool>& stop);

// A socket that listens beside "host:port" for processes of this user on this machine; -1 if there
// is none, and they use TCP. Throws: Error(bad_configuration) for a bad TROUPE_LOCAL_SOCKETS.
int listen_local(const std::string& address);

// Throws: as run_node() for a secret that it cannot use.
void check_secret_file(const std::string& file);

// Asks the members at `options.seeds` for a free task number of `options.job`; it stays reserved
// for the caller for some seconds. Throws: Error(peer_lost) when no member answers within
// `timeout`; Error(bad_configuration) when the cluster refuses this node.
int draw_task(const NodeOptions& options,
              std::chrono::milliseconds timeout = std::chrono::seconds(60));
// The task number that the certificate names; -1 for any, and without a certificate. Throws: as
// run_node() for files that it cannot use. `options.task`: -1 if it is not known yet.
int certified_task(const NodeOptions& options);

// ---- failures on purpose ----
// From now on, nodes and sessions of this process fail at named places, by "[PROCESS/]NAME=ACTION",
// with commas between them: docs/fail_points.md. Without this call the environment's
// TROUPE_FAILPOINTS is the text. Throws: Error(invalid_argument) for unknown names or actions.
void set_fail_points(const std::string& text);
std::string describe_fail_points();  // a line for each name: its place, and its actions

// ---- certificates, for links with TLS (docs/security.md) ----
// Makes an authority, which signs the certificates of a cluster: ca.pem, and ca.key, which only
// this user can read, in `folder`. Throws: Error(bad_configuration) if there is one; Error(io).
void make_authority(const std::string& folder, const std::string& cluster, int days = 3650);

struct CertificateRequest {
  std::string authority;  // folder of ca.pem and ca.key
  // "/job:ps/task:3", "/job:worker/*" for all tasks of a job, or the name of a program, which joins
  // as a client: 1 to 63 letters, digits, _ - and .
  std::string name;
  // Machines: a process that dials one accepts the certificate only there. Empty: anywhere.
  std::vector<std::string> hosts = {};
  int days = 365;           // until it expires
  std::string folder = {};  // to write; empty: one in `authority`, by the name
  // Replaces certificate and key; keeps old hosts if none are given, and a ca.pem that still fits.
  bool renew = false;
};
// Writes ca.pem, cert.pem and key.pem, which only this user can read, and returns the folder.
// Throws: Error(invalid_argument) for a name, a host or days; Error(bad_configuration) if there is
// one already, or without a good authority; Error(io).
std::string issue_certificate(const CertificateRequest& request);
// The certificates of a file, in lines. Throws: Error(io); Error(bad_data) if there is none.
std::string describe_certificates(const std::string& file);

// ---- the tasks of a cluster ----
// As a file: lines of `job = host:port, host:port`; the n-th address is the job's task n. `#`
// begins a comment. A job may also be given task by task, in any order:
//   ps     = 10.0.0.1:7000, 10.0.0.2:7000
//   worker/0 = [fd00::1]:7000
//   worker/1 = [fd00::2]:7000
struct ClusterSpec {
  // Addresses by job; the index is the task number. Jobs: ps, worker, chief, evaluator, client.
  std::map<std::string, std::vector<std::string>> jobs;
  std::string origin;  // where it came from, for messages: "cluster.txt", "--ps 2 --workers 2"

  std::vector<std::string> tasks() const;      // "/job:ps/task:0", ..., all of them
  std::vector<std::string> addresses() const;  // in the same order; seeds of a joining process
  // Throws: Error(bad_configuration) naming the task, and the tasks that exist.
  const std::string& address(const std::string& job, int task) const;
};

// Throws: Error(bad_configuration) for an unknown job; `job` is the value of --job.
void check_job(const std::string& job);
// True for 1 to 63 letters, digits, _ - and .
bool is_cluster_name(const std::string& name);
// Throws: Error(io) when the file cannot be read; Error(bad_configuration) with file and line for
// two tasks with one address, a missing index, an unknown job, a job without tasks, no worker, or a
// malformed address.
ClusterSpec read_cluster_spec(const std::string& path);
// `name` stands for the file in messages.
ClusterSpec parse_cluster_spec(const std::string& text, const std::string& name);
// A cluster on this machine. `first_port` 0: the processes draw free ports ("127.0.0.1:0");
// otherwise ports count up from it. Throws: Error(bad_configuration) without a worker, or if the
// ports would exceed the highest one.
ClusterSpec local_cluster_spec(int ps, int workers, int first_port = 0);
std::string to_string(const ClusterSpec& spec);  // the file format, with the origin as a comment

}  // namespace troupe

// LocalCluster: the nodes that `actor-node up` runs on this machine, and what happens when one dies
// or freezes.
//
// Owner: up(). A node that ended is started again after a backoff, within an intensity; one that is
// frozen is killed, and then it has ended. A node whose file JOB-TASK.away is in the directory is
// not started, and its end is no death. The sockets at which nodes listen are ours and listen from
// the first start to the last, so that nobody takes a port while its node is down, and a process
// that dials then waits for the next start.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/actor-node/secret_file.hpp"
#include "troupe/cluster.hpp"
#include "troupe/session.hpp"

// A program that was started and is not waited for yet.
struct Spawn {
  std::vector<std::string> command;
  std::string file = {};  // the file to run; empty: the first word of the command
  std::vector<std::pair<std::string, std::string>> environment = {};
  int output = -1;                  // its standard output and error; -1: ours
  int lines = -1;                   // its standard output alone; -1: as above
  std::vector<int> inherited = {};  // open files that it keeps
  bool own_group = false;           // of processes: a terminal's Ctrl-C does not reach it
};
// It is killed when we die: it never outlives us. If the command cannot be run it says so with
// `say`, and exits with 127 or 126. Throws: Error(io).
pid_t spawn(const Spawn& what, const troupe::LogSink& say);
// "was ended by signal 9 (Killed)", "exited with code 3".
std::string how_it_ended(int status);

class LocalCluster {
 public:
  using Time = std::chrono::steady_clock;
  using Millis = std::chrono::milliseconds;

  struct Limits {
    Millis frozen_after{3'000};  // of silence, a node is killed; 0: never
    int restarts = 5;            // of a node within the time below; one death more ends the cluster
    Millis restarts_within{60'000};
  };
  using Announced = std::map<std::string, std::string>;  // addresses by "worker/1"

  // `spec`: tasks with port 0 get a port of this machine. `announced`: tasks that others dial at
  // another address. `directory`: for logs and pid files. `say`: for whoever watches. Throws:
  // Error(io) for a port in use; Error(invalid_argument) for an announced task that is not there.
  LocalCluster(troupe::ClusterSpec spec, const Announced& announced,
               std::filesystem::path directory, std::vector<std::string> node_flags,
               const Limits& limits, troupe::LogSink say);
  ~LocalCluster();
  LocalCluster(const LocalCluster&) = delete;

  const troupe::ClusterSpec& spec() const { return spec_; }  // the addresses that others dial
  std::string listen_spec() const;  // as to_string(spec()), with the addresses of the nodes
  // Each start of a node writes the file again if it is gone.
  void keep(const SecretFile& secret) { secret_ = &secret; }
  // Starts what is due and kills what is frozen. Returns how long until it wants to be called
  // again.
  Millis look();
  // A process has ended. Returns Errc::ok, or the reason for which the cluster must end: a node
  // that died too often (peer_lost), or one that no restart helps (bad_configuration).
  troupe::Errc ended(pid_t pid, int status, bool stopping);
  bool gave_up() const { return gave_up_; }  // for such a reason
  bool any_running() const;
  void signal_all(int number);

 private:
  struct Node;
  struct Sockets {  // of a node: TCP, and for this machine; -1: none
    int tcp = -1, local = -1;
  };
  troupe::Errc give_up(troupe::Errc code, const std::string& why);
  void start(Node& node);
  int open_log(const Node& node);
  void write_pid(const Node& node) const;
  bool is_away(const Node& node) const;
  void listen_to(Node& node, Time::time_point now);
  template <class... Parts>
  void warn(const Parts&... parts) const;

  troupe::ClusterSpec spec_;
  const std::filesystem::path program_, directory_;  // actor-node; where files go
  const std::vector<std::string> node_flags_;
  const Limits limits_;
  const troupe::LogSink say_;
  const SecretFile* secret_ = nullptr;  // null: not ours to keep
  std::vector<Node> nodes_;
  std::vector<Sockets> sockets_;  // of the nodes, in their order
  bool gave_up_ = false;
  Time::time_point looked_at_ = Time::now();
};

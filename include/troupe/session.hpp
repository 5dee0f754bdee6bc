// Session: runs a graph, in this process or on a cluster, with the same results. Implemented in
// actors/master/session.cpp.
//
//   Session session = Session::local(graph);
//   Tensor y = session.run({out}, {{x, value}})[0];
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

enum class LogLevel : uint8_t { trace, debug, info, warn, error };
// Receives each line that the library logs, without a newline. In a cluster one thread calls it,
// and up to 4,096 lines wait; else any thread does. A process without a sink prints nothing.
using LogSink = std::function<void(LogLevel, const std::string& line)>;

class ServicesFactory;
const ServicesFactory& training_services();  // implemented in training/group/services.cpp

// The threads, devices and memory of one process.
struct ProcessOptions {
  int threads = 0;                                 // lanes for kernels and actors; 0: one per core
  int cpu_devices = 1;                             // virtual CPU devices, each with its own memory
  int shadow_devices = 0;                          // shadow accelerators, for tests
  bool cuda = true;                                // use the GPUs this process can see
  int64_t memory_budget_bytes = int64_t{8} << 30;  // per device, of any kind; at least 1
  int parameter_shards = 0;  // of a session; 0: one per task that holds parameters
  // Passes rewrite the calls of this process's sessions before they run (explain_passes() shows the
  // result): the same bits with less work. Off: each node that is needed runs as it was made.
  bool passes = true;
  LogSink log = {};
  LogLevel log_level = LogLevel::info;
  // The ops that graphs may use; empty: builtin_ops(), or the ops of the session's graph. All
  // members of a cluster must have the same ops.
  std::shared_ptr<const Registry> ops = {};
  // Folders below which sources are read here, for whichever process asks; empty: all files of this
  // user.
  std::vector<std::string> data_dirs = {};
  // Services for the parameters of sessions, and for the shards that hold them.
  const ServicesFactory* services = &training_services();
};

struct ConnectOptions {
  ProcessOptions process = {};
  std::string cluster = "troupe";  // must equal the nodes' cluster name
  std::string job = "client";  // this process's job; its task number is made from its incarnation
  // Tasks to wait for, "/job:ps/task:0". Empty: as many nodes as addresses were given.
  std::vector<std::string> wait_for = {};
  std::chrono::milliseconds timeout{60'000};  // for joining and for waiting
  // Sessions that give the same name share parameters (between-graph replication): each has a graph
  // with its own replicas and the same parameters. The first session to prepare a call sets the
  // initial values and owns the parameters: its train() begins and resumes the training, chooses
  // the rule, writes the checkpoints and restores lost shards; train() of the other sessions waits
  // for it and follows. The parameters stay when a session ends. When the owner has ended, or been
  // away for 10 s, the next train() that can claim its own checkpoint_dir makes its session the
  // owner. Empty: the parameters are this session's own.
  std::string container = {};
  // The replicas whose pushes make a synchronous update, over all sessions: 0 .. replicas - 1.
  // Every session must give the same number. 0: the replicas in the graph.
  int replicas = 0;
  // File of the bytes that the nodes know, too, at least 16, readable by nobody else. Empty: the
  // file that TROUPE_SECRET_FILE names; none if the variable is not set.
  std::string secret_file = {};
  // Folder of ca.pem, cert.pem and key.pem: all links are encrypted, and both ends prove their
  // names by certificates (docs/security.md). Empty: the folder that TROUPE_TLS_DIR names; without
  // it links are plain.
  std::string tls_dir = {};
};

using Feeds = std::vector<std::pair<Output, Tensor>>;

// Lets any thread cancel a running step.
class Cancellation {
 public:
  Cancellation();
  void cancel();  // the runs that were given this object end with Errc::cancelled
  bool cancelled() const;
  // Calls `stop` on cancellation, as long as the returned object lives; null if already cancelled.
  std::shared_ptr<void> watch(std::function<void()> stop);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

struct RunOptions {
  // After this time the step ends with Errc::timeout on all workers. Must be positive, or the run
  // is refused.
  std::chrono::milliseconds timeout{600'000};
  // The training step, which keys parameters, pushes and random numbers. -1: the session counts the
  // runs that push or write, for each replica, including those that fail: shards do not wait for
  // pushes of a step that is over; another run reads the newest parameters. A run that only reads
  // parameters is refused for a step that is not trained yet, unless others train them, too.
  int64_t step = -1;
  // Random numbers of the run: runs with one seed draw the same ones, in any process, whatever was
  // run before. Left out: those of its training step or, outside training, others in each run: the
  // session counts the runs that draw.
  std::optional<int64_t> seed = {};
  Cancellation* cancel = nullptr;
};

struct RunResult {
  Errc code = Errc::ok;
  std::string text;            // which node failed, in which process, and the remedy
  std::vector<Tensor> values;  // one per fetch; undefined for a fetched node without outputs
};

// A prepared call: one set of fetches and feeds. Cheap to copy; calls from several threads run
// concurrently.
class Callable {
 public:
  Callable() = default;
  // `feeds`: one tensor per feed, in the order of prepare(). Throws: Error with the code of the
  // failure.
  std::vector<Tensor> operator()(const std::vector<Tensor>& feeds = {},
                                 const RunOptions& options = {}) const;
  // Does not wait for the step, and runs none of its ops on this thread. `done` is called once and
  // must not throw. One thread calls those of a session of a cluster, and train() waits for it.
  // Else any thread does, this one if the step cannot begin, and `done` must not block.
  void start(const std::vector<Tensor>& feeds, const RunOptions& options,
             std::function<void(RunResult)> done) const;
  struct State;  // of the library
  explicit Callable(std::shared_ptr<State> state) : state_(std::move(state)) {}
  State* state() const { return state_.get(); }

 private:
  std::shared_ptr<State> state_;
};

// The device of one node of a prepared call, and the reason for it.
struct PlacedNode {
  std::string node, op, device, reason;
};
// A tensor that crosses devices.
struct CutEdge {
  std::string tensor, source, destination;  // "fc1/MatMul:0", device names
  int64_t transfers = 0;                    // sends so far
  int64_t bytes = 0;                        // sent so far
};
struct DeviceState {
  std::string name;
  int64_t used_bytes = 0, reserved_bytes = 0, budget_bytes = 0;
  int64_t peak_bytes = 0;  // the most in use at once, since reset_peaks() or the start
};

// A run that has not ended, and what it waits for, by task, for each task that has not finished its
// part: nodes, "fc1/MatMul (running)" if its kernel runs, and requests for parameters.
struct RunUnderWay {
  int64_t run = 0;
  double seconds = 0;  // since it began or, on its caller's thread, since it was first observed
  std::map<std::string, std::vector<std::string>> waits_for;
};

struct SessionState;
struct Kernel;

class Session {
 public:
  // In this process, without sockets. The graph must outlive the session and may grow meanwhile,
  // from one thread; calls already prepared do not change.
  static Session local(Graph& graph, ProcessOptions options = {});
  // On a cluster, through any of its members: "host:port", or several with commas. The program
  // itself listens on 127.0.0.1; with TROUPE_ANNOUNCE=none nobody dials it. Throws:
  // Error(peer_lost) when no member answers in time, naming the missing ones, or, to connect again,
  // when another process drew its node id; Error(bad_configuration) when the cluster refuses this
  // process, with its reason, and for a secret or certificate that it cannot use; Error(io) for a
  // file that cannot be read.
  static Session connect(Graph& graph, const std::string& address, ConnectOptions options = {});

  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();  // close()

  // Runs the nodes that `fetches` need and returns their values. The first call with a set of
  // fetches and feeds prepares it, later calls find it again. Safe from any number of threads; but
  // preparing reads the graph, so not while another thread adds nodes. Throws:
  // Error(invalid_argument) for feeds or fetches that do not fit, naming the node, its type and
  // what was given; Error with the code of the failure in the step.
  std::vector<Tensor> run(const std::vector<Output>& fetches, const Feeds& feeds = {},
                          const RunOptions& options = {});
  // Waits up to 60 s until all parts are installed. Throws: as run(); Error(peer_lost) naming the
  // missing member, at once if it is a ps whose parameters are first used; Error(timeout).
  Callable prepare(const std::vector<Output>& fetches, const std::vector<Output>& feeds = {});

  // Descriptions of a prepared call, for people.
  std::vector<PlacedNode> placement(const Callable& callable) const;
  // Leaves out a process that is lost or does not answer in 5 s; a warning names it.
  std::vector<CutEdge> cut_edges(const Callable& callable) const;
  std::string dot(const Callable& callable) const;  // Graphviz, one cluster per device
  std::vector<std::string> devices() const;         // all that the session can use
  std::vector<DeviceState> device_states() const;   // of this process
  void reset_peaks();                               // peak_bytes become the bytes in use

  // The runs that began at least this long ago: which process waits for which, and which kernel has
  // not returned. The log says the same, once for each run that takes 5 s. Any thread, at any time,
  // also from within another run; asks the other processes, for at most 5 s.
  std::vector<RunUnderWay> under_way(std::chrono::milliseconds at_least = {}) const;

  // Replaces the kernel of the node of that name while steps run: steps that begin after this has
  // returned fire the new one; no step is held up or lost. The first form takes the name of an op
  // of the graph's registry, for all processes; the second a kernel, for a node of this process.
  // The op must have the node's inputs, outputs and attributes, and give it the same types;
  // existing gradients do not change. Calls that are prepared later fire it, too, and without
  // passes where a pass would remove the node or merge it into another. Returns how often the node
  // is installed now: 0 if no prepared call fires it. Throws: Error(invalid_argument) saying what
  // does not fit, or which pass has removed the node from a prepared call, or merged it into
  // another (explain_passes()); then nothing has changed in this process.
  int64_t become(const std::string& node, const std::string& op);
  int64_t become(const std::string& node, const Kernel& kernel);

  // Records what every process does from now on; stop_trace() returns a Chrome trace (JSON). Each
  // call takes at most 5 s: a process that is lost, or does not answer by then, is left out, and a
  // warning names it.
  void start_trace();
  std::string stop_trace();

  // The session's knowledge of its cluster, as text (actors/master/master_state.hpp): members,
  // prepared calls with their placement, and which of their installations stand. For people.
  std::string describe() const;
  // Ends runs and trainings under way with Errc::cancelled. Waits for calls of other threads,
  // including the program's functions that they call; members of the cluster drop the session's
  // state: up to 2 s for steps there, and 2 s for that. Later calls are refused. Not from within a
  // `done`. Throws: Error(invalid_argument) from within a callback of train(), where a session must
  // not be destroyed either.
  void close();

  explicit Session(std::unique_ptr<SessionState> state);  // of the library
  SessionState& state() const { return *state_; }

 private:
  std::unique_ptr<SessionState> state_;
};

// The content of a trace of stop_trace() as tables for people: time, bytes and floating-point
// operations by op and by node, the share of `peak_flops` (per second and thread; 0: left out) that
// an op reaches, each step with its time and the most memory in use. Throws: Error(bad_data) for a
// text that is no such trace. Implemented in actors/observe/trace_table.cpp.
struct TraceTables {
  double peak_flops = 0;
  int nodes = 20;  // the slowest ones; 0: no table of nodes
  int steps = 10;  // the first ones; 0: no table of steps
};
std::string describe_trace(const std::string& trace, const TraceTables& tables = {});

}  // namespace troupe

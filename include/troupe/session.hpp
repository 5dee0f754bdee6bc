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
#include <string>
#include <utility>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

enum class LogLevel : uint8_t { trace, debug, info, warn, error };
// Gets each line the library logs, without a newline; any thread. A process without a sink prints
// nothing.
using LogSink = std::function<void(LogLevel, const std::string& line)>;

class ServicesFactory;
const ServicesFactory& training_services();  // implemented in training/group/services.cpp

// What one process brings: threads, devices, memory.
struct ProcessOptions {
  int threads = 0;                                 // lanes for kernels and actors; 0: one per core
  int cpu_devices = 1;                             // virtual CPU devices, each with its own memory
  int shadow_devices = 0;                          // shadow accelerators, for tests
  bool cuda = true;                                // use the GPUs this process can see
  int64_t memory_budget_bytes = int64_t{8} << 30;  // per device, of any kind; at least 1
  int parameter_shards =
      0;  // over which a session spreads its parameters; 0: one per task that holds any
  // Calls of this process's sessions are rewritten before they run (explain_passes() shows it): the
  // same bits with less work. Off: each node that is needed runs as it was made.
  bool passes = true;
  LogSink log = {};
  LogLevel log_level = LogLevel::info;
  // What graphs may consist of; empty: builtin_ops(), or the ops of the session's graph. All
  // members of a cluster must have the same ones.
  std::shared_ptr<const Registry> ops = {};
  // The parameters of sessions, and the shards that hold them.
  const ServicesFactory* services = &training_services();
};

struct ConnectOptions {
  ProcessOptions process = {};
  std::string cluster = "troupe";  // must equal the nodes' cluster name
  std::string job = "client";  // this process's job; its task number is made from its incarnation
  // Tasks that must be there first, "/job:ps/task:0". Empty: as many nodes as addresses were given.
  std::vector<std::string> wait_for = {};
  std::chrono::milliseconds timeout{60'000};  // for joining and for waiting
  // Sessions that give the same name share parameters (between-graph replication): each has a graph
  // with its own towers and the same parameters. The first one to prepare a call sets their initial
  // values and owns them: its train() begins and resumes the training, chooses the rule, writes the
  // checkpoints and restores lost shards; train() of the others waits for it and follows. They stay
  // when a session ends. Empty: this session's own.
  std::string container = {};
  // Whose pushes make a synchronous update, over all sessions: replicas 0 .. replicas - 1, the same
  // number in each. 0: those in the graph.
  int replicas = 0;
};

using Feeds = std::vector<std::pair<Output, Tensor>>;

// Lets any thread take a running step back.
class Cancellation {
 public:
  Cancellation();
  void cancel();  // the runs that were given this object end with Errc::cancelled
  bool cancelled() const;
  // Calls `stop` when cancelled, as long as the returned object lives; null if that has happened
  // already.
  std::shared_ptr<void> watch(std::function<void()> stop);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

struct RunOptions {
  // Then the step ends with Errc::timeout on all workers. Above 0, else the run is refused.
  std::chrono::milliseconds timeout{600'000};
  // The training step, which parameters, pushes and random numbers are keyed by. -1: the session
  // counts the runs that push or write, for each replica, also those that fail: shards do not wait
  // for pushes of a step that is over.
  int64_t step = -1;
  Cancellation* cancel = nullptr;
};

struct RunResult {
  Errc code = Errc::ok;
  std::string text;            // what failed: node, process, remedy
  std::vector<Tensor> values;  // one per fetch; undefined for a fetched node without outputs
};

// A prepared call: one set of fetches and feeds. Cheap to copy; calls from several threads run side
// by side.
class Callable {
 public:
  Callable() = default;
  // `feeds`: one tensor per feed, in the order of prepare(). Throws: Error with the code of what
  // failed.
  std::vector<Tensor> operator()(const std::vector<Tensor>& feeds = {},
                                 const RunOptions& options = {}) const;
  // Does not wait for the step, and runs none of its ops on this thread. `done` is called once, on
  // any thread (this one, if the step cannot begin), and must neither block nor throw.
  void start(const std::vector<Tensor>& feeds, const RunOptions& options,
             std::function<void(RunResult)> done) const;
  struct State;

 private:
  friend class Session;
  friend struct SessionState;
  std::shared_ptr<State> state_;
};

// Where one node of a prepared call runs, and why.
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
  int64_t peak_bytes = 0;  // the most that was in use at once, since reset_peaks() or the beginning
};

// A run that has not ended, and what it waits for: nodes, "fc1/MatMul (running)" if its kernel
// runs, requests for parameters; by task, for those that have not done their part.
struct RunUnderWay {
  int64_t run = 0;
  double seconds =
      0;  // since it began; of one on its caller's thread, since it was first looked at
  std::map<std::string, std::vector<std::string>> waits_for;
};

struct SessionState;
struct Kernel;

class Session {
 public:
  // In this process, without sockets. The graph must outlive the session and may grow meanwhile,
  // from one thread; what is prepared does not change any more.
  static Session local(Graph& graph, ProcessOptions options = {});
  // On a cluster, through any of its members: "host:port", or several with commas. The program
  // itself listens on 127.0.0.1. Throws: Error(peer_lost) when nobody
  // answers in time, naming who is missing; Error(bad_configuration) when the cluster refuses us,
  // with its reason.
  static Session connect(Graph& graph, const std::string& address, ConnectOptions options = {});

  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();  // close()

  // Runs what `fetches` need and returns their values. The first call with a set of fetches and
  // feeds prepares it, later ones find it again. Safe from any number of threads; but preparing
  // reads the graph, so not while another thread adds nodes. Throws: Error(invalid_argument) for
  // feeds or fetches that do not fit, naming the node, its type and what was given; Error with the
  // code of what failed in the step.
  std::vector<Tensor> run(const std::vector<Output>& fetches, const Feeds& feeds = {},
                          const RunOptions& options = {});
  // Waits up to 60 s until all is installed. Throws: as run(); Error(peer_lost) naming who is
  // missing, at once if that is a ps whose parameters are first used; Error(timeout).
  Callable prepare(const std::vector<Output>& fetches, const std::vector<Output>& feeds = {});

  // What a prepared call looks like, for people.
  std::vector<PlacedNode> placement(const Callable& callable) const;
  // Without what a lost process has sent, or one that does not answer in 5 s; a warning names it.
  std::vector<CutEdge> cut_edges(const Callable& callable) const;
  std::string dot(const Callable& callable) const;  // Graphviz, one cluster per device
  std::vector<std::string> devices() const;         // all the session can place on
  std::vector<DeviceState> device_states() const;   // of this process
  void reset_peaks();                               // DeviceState::peak_bytes begin at what is used

  // The runs that began at least so long ago: who waits for whom, and which kernel has not
  // returned. A line of the log says the same once of each run that takes 5 s. Any thread, at any
  // time, also from within another run; asks the other processes, at most 5 s.
  std::vector<RunUnderWay> under_way(std::chrono::milliseconds at_least = {}) const;

  // Replaces the kernel of the node of that name while steps run: those that begin when this has
  // returned fire the new one, none is held up or lost. By the name of an op of the graph's
  // registry, in all processes; or by a function, for a node of this process. The op has the node's
  // inputs, outputs and attributes, and gives it the same types; gradients that exist stay what
  // they are. Calls that are prepared later fire it, too. A call in which a pass has left the node
  // out, or has another node do its work (explain_passes()), is made again without passes, and runs
  // so from then on. Returns how often the node is installed now: 0 if no prepared call fires it.
  // Throws: Error(invalid_argument) saying what does not fit, or which pass has absorbed the node
  // into what in a call that is prepared and runs in several processes; and then nothing has
  // changed in this process.
  int64_t become(const std::string& node, const std::string& op);
  int64_t become(const std::string& node, const Kernel& kernel);

  // Records what every process does from now on; stop_trace() returns a Chrome trace (JSON). Each
  // takes 5 s at most: a process that is lost, or does not answer by then, is left out, and a
  // warning names it.
  void start_trace();
  std::string stop_trace();

  // What the session knows of its cluster, as text (actors/master/master_state.hpp): members,
  // prepared calls with their placement, and which of their installations stand. For people.
  std::string describe() const;
  // Runs and trainings under way end with Errc::cancelled; calls of other threads are waited for,
  // with what they call of the program, and members of the cluster drop what was this session's: up
  // to 2 s for steps there, and 2 s for that. Later calls are refused. Not from within a `done`.
  // Throws: Error(invalid_argument) from within a callback of train(), where a session must not be
  // destroyed either.
  void close();

  SessionState& state() const { return *state_; }

 private:
  friend struct SessionState;
  explicit Session(std::unique_ptr<SessionState> state);
  static int64_t call_of(const Callable& callable);
  std::unique_ptr<SessionState> state_;
};

// What a trace of stop_trace() says, as tables for people: time, bytes and floating-point
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

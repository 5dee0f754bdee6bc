// The public Session over a Master, and its calls and cancellations. Error results become
// exceptions here.
#include "troupe/session.hpp"

#include <atomic>
#include <cstdlib>
#include <exception>
#include <thread>

#include <caf/logger.hpp>

#include "actors/observe/handed_out.hpp"
#include "actors/async/joined.hpp"
#include "actors/async/option_range.hpp"
#include "actors/engine/program/op_code.hpp"
#include "actors/master/session_state.hpp"
#include "troupe/caf.hpp"

namespace troupe {

struct Cancellation::State {
  std::mutex mutex;  // guards both
  bool cancelled = false;
  std::map<int64_t, std::function<void()>> runs;
  int64_t next = 0;
};
Cancellation::Cancellation() : state_(std::make_shared<State>()) {}
void Cancellation::cancel() {
  std::map<int64_t, std::function<void()>> runs;
  {
    std::lock_guard lock(state_->mutex);
    state_->cancelled = true;
    runs.swap(state_->runs);
  }
  for (auto& [id, stop] : runs) stop();
}
bool Cancellation::cancelled() const {
  std::lock_guard lock(state_->mutex);
  return state_->cancelled;
}
std::shared_ptr<void> Cancellation::watch(std::function<void()> stop) {
  std::lock_guard lock(state_->mutex);
  if (state_->cancelled) return nullptr;
  const int64_t id = state_->next++;
  state_->runs[id] = std::move(stop);
  return std::shared_ptr<void>(state_.get(), [state = state_, id](void*) {
    std::lock_guard lock(state->mutex);
    state->runs.erase(id);
  });
}

namespace {

// Session numbers differ between processes of a cluster, as they include the incarnation.
uint64_t draw_session(uint64_t incarnation) {
  static std::atomic<uint64_t> count{0};
  return incarnation * 0x9e3779b97f4a7c15ull + ++count;
}

std::vector<Tensor> value_or_throw(RunResult result) {
  if (result.code != Errc::ok) throw Error(result.code, result.text);
  return std::move(result.values);
}

}  // namespace

struct Callable::State {
  std::shared_ptr<Gate> gate;  // shut when its session is closed
  int64_t call = 0;
};

namespace {

const char kCallClosed[] = "the session of this call is closed; prepare it in a new one";

const Callable::State& prepared(const Callable::State* state) {
  if (state) return *state;
  throw Error(Errc::invalid_argument,
              "this Callable was never prepared; take one from Session::prepare()");
}

int64_t call_of(const Callable& callable) { return prepared(callable.state()).call; }

}  // namespace

Gate::Visit SessionState::open() const { return {gate, kSessionClosed}; }

std::vector<Tensor> Callable::operator()(const std::vector<Tensor>& feeds,
                                         const RunOptions& options) const {
  const State& state = prepared(state_.get());
  const Gate::Visit master(*state.gate, kCallClosed);  // the call keeps the gate, and the caller
                                                       // keeps the call
  return value_or_throw(master->runs().run(state.call, feeds, options));
}

void Callable::start(const std::vector<Tensor>& feeds, const RunOptions& options,
                     std::function<void(RunResult)> done) const {
  const State& state = prepared(state_.get());
  const Gate::Visit master(state.gate, kCallClosed);  // holds the gate: `done` may drop the call
  master->runs().start(state.call, feeds, options, std::move(done));
}

namespace {

// Begins to write the files that the environment asks for (actors/observe/handed_out.hpp).
void begin_to_hand_out(Master& master) {
  const char* const trace = trace_wanted();
  if (!trace && !graph_wanted()) return;
  const std::string path = path_of_session(trace ? trace : graph_wanted(), master.session());
  if (!path.empty()) {
    if (trace) master.start_trace();
    return;
  }
  static std::atomic_flag said;
  if (!said.test_and_set())
    master.process().log()->warn("more sessions than are written down: sessions={}",
                                 kHandingSessionsMax);
}

// Ends the trace, and writes it to the file that the environment asks for, too.
std::string handed_out(Master& master) {
  std::string text = master.stop_trace();
  if (!trace_wanted()) return text;
  const std::string path = path_of_session(trace_wanted(), master.session());
  const std::string error = path.empty() ? "" : hand_out(path, text);
  if (!error.empty())
    master.process().log()->warn("the trace could not be written: file={} error={}", path, error);
  return text;
}

// True if the thread-local objects of this thread are destroyed: it is the program's first thread,
// at its end. Works for threads that have called it before.
bool is_past_its_end() {
  struct End {
    bool& reached;
    ~End() { reached = true; }
  };
  thread_local bool reached = false;  // has no destructor, so it stays valid
  thread_local const End end{reached};
  return end.reached;
}

}  // namespace

void SessionState::close() {
  if (gate && gate->visited_by_me())
    throw Error(Errc::invalid_argument,
                "a session is closed from within one of its own calls, as a callback of train(); "
                "throw there to end the training, and close the session when it has returned");
  const auto end = [this] {
    std::lock_guard one(closing);
    if (master && process->tracer().on() && trace_wanted()) handed_out(*master);
    if (gate) gate->shut();
    if (parameters) parameters->end();
    if (master) master->stop();
    parameters.reset();
    if (process) process->stop();
    master.reset();
    process.reset();
  };
  if (!is_past_its_end()) return end();
  // The session is a static object. CAF uses thread-local objects while it ends, so another thread
  // ends it.
  std::exception_ptr thrown;
  std::thread([&] {
    try {
      end();
    } catch (...) {
      thrown = std::current_exception();
    }
  }).join();
  if (thrown) std::rethrow_exception(thrown);
}

namespace {

std::vector<std::string> tasks_of(const std::map<std::string, Agent>& agents) {
  std::vector<std::string> out;
  for (const auto& [task, agent] : agents) out.push_back(task);
  return out;
}

// A member that others know of may have died a moment ago.
constexpr std::chrono::milliseconds kOthersWaitMax{2'000};

// Waits for all nodes that `options` names, or for as many as there are addresses and then for
// those that they know of. Throws: Error, naming the missing nodes.
void await_cluster(Master& master, const std::string& address, size_t addresses,
                   const ConnectOptions& options) {
  const bool named = !options.wait_for.empty();
  const auto missing = named ? master.members().wait_for(options.wait_for, options.timeout)
                             : std::vector<std::string>{};
  // All named nodes have been waited for already.
  const size_t there = master.members().wait_for_count(
      addresses, options.job, named ? std::chrono::milliseconds(0) : options.timeout);
  if (const StepResult refused = master.members().refusal(); refused.code != Errc::ok)
    throw Error(refused.code, "the cluster at ", address, " refused us: ", refused.text);
  if (there == 0)
    throw Error(Errc::peer_lost, "nobody answered at ", address, " within ",
                options.timeout.count(), " ms", named ? "; missing: " : "", joined(missing),
                "; start the nodes with actor-node join, or check the address and the cluster "
                "name \"",
                options.cluster, "\"");
  if (!missing.empty())
    throw Error(Errc::peer_lost, "waited ", options.timeout.count(), " ms for ", joined(missing),
                "; start them with actor-node join, or give more time");
  if (!named && there < addresses)
    throw Error(Errc::peer_lost, "waited ", options.timeout.count(), " ms for the ", addresses,
                " nodes at ", address, ", but only ", there, " came (",
                joined(tasks_of(master.members().agents())),
                "); start the others, or name those you need in ConnectOptions::wait_for");
  if (named) return;
  const std::vector<std::string> late = master.members().wait_for(
      master.members().heard_of(), std::min(options.timeout, kOthersWaitMax));
  if (!late.empty())
    master.process().log()->warn("members of the cluster are not there yet: missing={}",
                                 joined(late));
}

}  // namespace

Session::Session(std::unique_ptr<SessionState> state) : state_(std::move(state)) {
  is_past_its_end();  // so that a later call on this thread works
  // CAF remembers per thread the system that it last spawned for, and a system ends only when all
  // threads have forgotten it: this thread may live on while another closes the session.
  caf::logger::set_current_actor_system(nullptr);
}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Session SessionState::local(Graph& graph, ProcessOptions options, caf::actor_system* system) {
  auto state = std::make_unique<SessionState>();
  const int shards = options.parameter_shards;
  if (!options.ops) options.ops = graph.shared_registry();
  state->process = system
                       ? std::make_unique<Process>("/job:local/task:0", std::move(options), *system)
                       : std::make_unique<Process>("/job:local/task:0", std::move(options));
  state->master =
      std::make_unique<Master>(*state->process, graph, draw_session(state->process->incarnation()));
  state->gate = state->master->gate();
  state->parameters =
      state->process->services_factory().make_parameter_owner(*state->master, {.shards = shards});
  begin_to_hand_out(*state->master);
  return Session(std::move(state));
}

Session Session::local(Graph& graph, ProcessOptions options) {
  return SessionState::local(graph, std::move(options), nullptr);
}

Session local_session(Graph& graph, caf::actor_system& system, ProcessOptions options) {
  return SessionState::local(graph, std::move(options), &system);
}

Session Session::connect(Graph& graph, const std::string& address, ConnectOptions options) {
  want_range("ConnectOptions::replicas", options.replicas, 0, 65'536,
             "0 (those in the graph) to 65536");
  want_least("ConnectOptions::timeout", options.timeout.count(), 0, "0 ms or more");
  ClusterOptions cluster;
  cluster.cluster = options.cluster;
  cluster.secret = read_secret(options.secret_file);
  cluster.silence = read_silence({});
  if (const char* told = std::getenv("TROUPE_ANNOUNCE")) cluster.announce = told;
  for (size_t begin = 0; begin <= address.size();) {  // several addresses may be given, separated
                                                      // by commas
    const size_t end = std::min(address.find(',', begin), address.size());
    if (end > begin) cluster.seeds.push_back(address.substr(begin, end - begin));
    begin = end + 1;
  }
  if (cluster.seeds.empty())
    throw Error(Errc::invalid_argument,
                "no address to connect to; give \"host:port\" of any member of the cluster");
  const size_t seeds = cluster.seeds.size();
  auto state = std::make_unique<SessionState>();
  const uint64_t incarnation = Process::draw_incarnation();
  // Clients need no task number from the user: it comes from the incarnation.
  const auto task = static_cast<int32_t>(incarnation % 1'000'000);
  cluster.tls = read_tls(options.tls_dir, options.cluster, options.job, task);
  const int shards = options.process.parameter_shards;
  if (!options.process.ops) options.process.ops = graph.shared_registry();
  state->process =
      std::make_unique<Process>(detail::concat("/job:", options.job, "/task:", task), incarnation,
                                std::move(options.process), std::move(cluster));
  state->master = std::make_unique<Master>(*state->process, graph, draw_session(incarnation));
  state->gate = state->master->gate();
  state->process->start(&state->master->members());
  await_cluster(*state->master, address, seeds, options);
  state->parameters = state->process->services_factory().make_parameter_owner(
      *state->master,
      {.container = options.container, .replicas = options.replicas, .shards = shards});
  begin_to_hand_out(*state->master);
  return Session(std::move(state));
}

Callable Session::prepare(const std::vector<Output>& fetches, const std::vector<Output>& feeds) {
  auto state = std::make_shared<Callable::State>();
  const Gate::Visit master = state_->open();
  state->gate = state_->gate;
  state->call = master->calls().prepare(fetches, feeds);
  master->calls().wait_ready(state->call, std::chrono::milliseconds(60'000));
  return Callable(std::move(state));
}

std::vector<Tensor> Session::run(const std::vector<Output>& fetches, const Feeds& feeds,
                                 const RunOptions& options) {
  std::vector<Output> fed;
  std::vector<Tensor> values;
  for (const auto& [output, value] : feeds) {
    fed.push_back(output);
    values.push_back(value);
  }
  const Gate::Visit master = state_->open();
  const int64_t call = master->calls().prepare(fetches, fed);
  return value_or_throw(master->runs().run(call, values, options));
}

std::vector<PlacedNode> Session::placement(const Callable& callable) const {
  return state_->open()->calls().placement(call_of(callable));
}
std::vector<CutEdge> Session::cut_edges(const Callable& callable) const {
  return state_->open()->calls().cut_edges(call_of(callable));
}
std::string Session::dot(const Callable& callable) const {
  return state_->open()->calls().dot(call_of(callable));
}
std::vector<std::string> Session::devices() const { return state_->open()->devices(); }

std::vector<DeviceState> Session::device_states() const {
  const Gate::Visit master = state_->open();
  std::vector<DeviceState> out;
  for (const auto& device : master->process().devices()) {
    const MemoryStats stats = device->memory().stats();
    out.push_back({device->name(), stats.used_bytes, stats.reserved_bytes, stats.budget_bytes,
                   stats.peak_bytes});
  }
  return out;
}

void Session::reset_peaks() {
  const Gate::Visit master = state_->open();
  for (const auto& device : master->process().devices()) device->memory().reset_peak();
}

std::vector<RunUnderWay> Session::under_way(std::chrono::milliseconds at_least) const {
  return state_->open()->under_way(at_least);
}

namespace {

// Throws: Error(invalid_argument) with the nearest name.
const Node& node_of(const Graph& graph, const std::string& name) {
  return graph.node(graph.output(name, Origin{}).node);  // the caller's line is not known
}

}  // namespace

int64_t Session::become(const std::string& node, const std::string& op) {
  const Gate::Visit master = state_->open();
  const auto ops = master->graph().shared_registry();
  const std::shared_ptr<const Op> new_op(ops, &ops->get(op));
  check_replacement(node_of(master->graph(), node), *new_op);
  const std::lock_guard one_by_one(state_->becoming);
  return master->calls().become(node, new_op, /*by_name=*/true);
}

int64_t Session::become(const std::string& node, const Kernel& kernel) {
  const Gate::Visit master = state_->open();
  const std::lock_guard one_by_one(state_->becoming);
  return master->calls().become(node, op_with_kernel(node_of(master->graph(), node), kernel),
                                /*by_name=*/false);
}

void Session::start_trace() { state_->open()->start_trace(); }
std::string Session::stop_trace() {
  const Gate::Visit master = state_->open();
  return handed_out(*state_->master);
}
std::string Session::describe() const { return state_->open()->calls().describe(); }
void Session::close() { state_->close(); }

}  // namespace troupe

// A session's surveys of a cluster: the bytes of cut edges, one trace of all processes, and the
// report of waiting processes. The members run in this process and talk over loopback.

#include <future>
#include <mutex>
#include <set>
#include <thread>

#include "actors/async/ask.hpp"
#include "actors/master/session_state.hpp"
#include "actors/cluster/survey.hpp"
#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/within.hpp"
#include "data/files/json.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"
#include "troupe/training.hpp"

namespace troupe {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Two towers that fit a line, one per worker or both in the program. The parameters live on the ps
// if there is one.
struct Towers {
  Graph graph;
  std::vector<Tower> towers;
  explicit Towers(bool remote = true) {
    for (int64_t i = 0; i < 2; ++i) {
      const auto scope =
          graph.scope({.name = detail::concat("tower", i),
                       .device = remote ? detail::concat("/job:worker/task:", i) : "",
                       .replica = i});
      const Output x = placeholder(graph, DType::f32, {4, 1}, "x");
      const Output w = parameter("w", fill(graph, {1, 1}, 0));
      const Output loss = reduce_mean(square(matmul(x, w) - x * 3.0));
      towers.push_back({i, loss, minimize(loss, sgd(0.01)), {x}, [](int64_t step) {
                          const float v = static_cast<float>(step % 5);
                          return std::vector<Tensor>{Tensor::of<float>({v, 1, 2, 3}, {4, 1})};
                        }});
    }
  }
};

const std::vector<std::string> kMembers = {"/job:ps/task:0", "/job:worker/task:0",
                                           "/job:worker/task:1"};

// Two towers have trained up to step 2; then the first does that step, and its update waits for the
// second. Returns the report of a stall once both ends of the first tower's push wait.
std::string report_of_step_2(Session& session, const Towers& t,
                             const std::vector<std::string>& open) {
  train(session, t.towers, {.steps = 2});
  const Tower& tower = t.towers[0];
  const Callable step = session.prepare({tower.loss, tower.update}, tower.feeds);
  Cancellation cancel;
  std::promise<RunResult> ended;
  step.start(tower.batch(2), {.step = 2, .cancel = &cancel},
             [&](RunResult result) { ended.set_value(std::move(result)); });
  SessionState& state = session.state();
  Stall stall{.run = -1, .seconds = 5, .open = open};
  const Asker asker = spawn_asker(state.process->system());
  state.process->track(asker);
  const auto ask = [&] {
    auto line = std::make_shared<std::promise<std::string>>();
    std::future<std::string> said = line->get_future();
    with_requests(asker, [&, line](Requests& requests) {
      report_stall(requests, *state.process, state.master->session(),
                   state.master->members().agents(), stall,
                   [line](const std::string& text) { line->set_value(text); });
    });
    return said.get();
  };
  // The push is under way, and the two ends are observed at different times: ask again until both
  // wait.
  std::string line = ask();
  for (int i = 0; i < 1000 && !(contains(line, "gradient of step") && contains(line, "push of w"));
       ++i)
    line = ask();
  cancel.cancel();
  CHECK(ended.get_future().get().code == Errc::cancelled);
  return line;
}

}  // namespace

TEST_CASE("cut edges show what every process has sent, also from one worker to another") {
  LocalCluster cluster({"/job:worker/task:0", "/job:worker/task:1"});
  Graph g;
  const Output x = placeholder(g, DType::f32, {-1}, "x");
  const Output there = within(g.scope({.device = "/job:worker/task:0"}), [&] { return add(x, x); });
  const Output back =
      within(g.scope({.device = "/job:worker/task:1"}), [&] { return add(there, there); });
  Session session = cluster.connect(g);
  const Callable step = session.prepare({back}, {x});
  constexpr int64_t kSteps = 5, kElements = 1000;
  for (int64_t i = 0; i < kSteps; ++i) step({Tensor::zeros(DType::f32, {kElements})});
  const std::vector<CutEdge> edges = session.cut_edges(step);
  REQUIRE(edges.size() == 3);  // to the first worker, on to the second, back
  std::set<std::string> sources;
  for (const CutEdge& e : edges) {
    CAPTURE(e.tensor);
    sources.insert(e.source);
    CHECK(e.transfers == kSteps);
    CHECK(e.bytes == kSteps * kElements * 4);
  }
  CHECK(sources.size() == 3);
}

TEST_CASE("the trace of a training step shows every process's part on one time line") {
  LocalCluster cluster(kMembers);
  Towers t;
  Session session = cluster.connect(t.graph);
  TrainOptions options{.steps = 12};
  std::string trace;
  int64_t began = -1;
  const int64_t before = Tracer::now_ns();
  options.on_progress = [&](const TrainProgress& p) {
    if (began < 0 && p.step >= 3) {
      session.start_trace();
      began = p.step;
    } else if (began >= 0 && trace.empty() && p.step >= began + 2) {
      trace = session.stop_trace();
    }
  };
  train(session, t.towers, options);
  if (trace.empty()) trace = session.stop_trace();
  const double took_us = static_cast<double>(Tracer::now_ns() - before) / 1e3;

  const Json json = parse_json(trace, "trace");
  const Json* events = json.find("traceEvents");
  REQUIRE(events);
  std::map<std::string, std::string> process_of;          // by pid
  std::map<std::string, std::set<std::string>> seen;      // categories, by pid
  std::map<std::string, std::multiset<std::string>> ids;  // open spans
  for (const Json& e : events->items) {
    const std::string pid = e.find("pid")->text, ph = e.find("ph")->text;
    if (ph == "M") {
      process_of[pid] = e.find("args")->find("name")->text;
      continue;
    }
    const double ts = std::stod(e.find("ts")->text);
    CHECK(ts > -took_us);
    CHECK(ts < took_us);
    seen[pid].insert(e.find("cat")->text);
    if (ph == "X") CHECK(std::stod(e.find("dur")->text) >= 0);
    if (ph == "b") ids[pid].insert(e.find("id2")->find("local")->text);
    if (ph == "e") CHECK(ids[pid].erase(e.find("id2")->find("local")->text) == 1);
  }
  for (const auto& [pid, open] : ids) CHECK(open.empty());
  std::map<std::string, std::set<std::string>> categories;
  for (const auto& [pid, name] : process_of) categories[name] = seen[pid];
  REQUIRE(categories.size() == 4);
  for (const auto& entry : categories) {
    const std::string& name = entry.first;  // clang 14 cannot capture a structured binding
    const std::set<std::string>& got = entry.second;
    CAPTURE(name);
    std::set<std::string> want = {"step", "send", "receive"};  // the client's categories
    if (contains(name, "worker")) want = {"kernel", "wait", "pull", "push", "send", "receive"};
    if (contains(name, "ps")) want = {"update"};
    for (const std::string& category : want) CHECK_MESSAGE(got.count(category), category);
  }
}

TEST_CASE("a lost process is left out of counts and traces at once, and a line says so") {
  LocalCluster cluster(kMembers);
  Graph g;
  std::mutex mutex;  // guards `lines`
  std::vector<std::string> lines;
  Session session = cluster.connect(g, [&](LogLevel, const std::string& line) {
    std::lock_guard lock(mutex);
    lines.push_back(line);
  });
  Process& process = *session.state().process;
  const Asker asker = spawn_asker(process.system());
  process.track(asker);
  const Agents agents =
      session.state().master->members().agents();  // the agents as known before the loss
  REQUIRE(agents.size() == 3);
  session.start_trace();
  cluster.process(0).stop();
  while (session.state().master->members().agents().size() == 3) std::this_thread::yield();
  survey_edges(process, asker, agents, 1, 1);
  const std::string trace = end_trace(process, asker, agents);
  CHECK(!contains(trace, kMembers[0]));
  CHECK(contains(trace, kMembers[1]));
  CHECK(contains(trace, kMembers[2]));
  process.log()->flush();
  std::lock_guard lock(mutex);
  size_t said = 0;
  for (const std::string& line : lines) {
    if (!contains(line, "left out")) continue;
    ++said;
    CHECK_MESSAGE(contains(line, "peer=/job:ps/task:0 error=the process is gone"), line);
  }
  CHECK(said == 2);
}

TEST_CASE("agents are asked at once, not one after the other") {
  Process process("/job:client/task:0", {.threads = 1});
  const Asker asker = spawn_asker(process.system());
  // The first agent answers only after the second was asked.
  const caf::actor first =
      process.system().spawn([](caf::event_based_actor* self) -> caf::behavior {
        auto held = std::make_shared<caf::typed_response_promise<EdgeCounts>>();
        return {
            [=](const CountEdges&) { return *held = self->make_response_promise<EdgeCounts>(); },
            [=](caf::ok_atom) {
              held->deliver(EdgeCounts{{3}, {1}, {20}});
            }};
      });
  const caf::actor second =
      process.system().spawn([first](caf::event_based_actor* self) -> caf::behavior {
        return {[=](const CountEdges&) {
          self->send(first, caf::ok_atom_v);
          return EdgeCounts{{3}, {2}, {40}};
        }};
      });
  process.track(asker);
  for (const caf::actor& actor : {first, second}) process.track(actor);
  const auto sum = survey_edges(
      process, asker, {{"a", caf::actor_cast<Agent>(first)}, {"b", caf::actor_cast<Agent>(second)}},
      1, 1);
  REQUIRE(sum.count(3) == 1);
  CHECK(sum.at(3).transfers == 3);
  CHECK(sum.at(3).bytes == 60);
}

TEST_CASE("the report of a stall says which node, which request and which shard wait for whom") {
  LocalCluster cluster(kMembers);
  Towers t;
  Session session = cluster.connect(t.graph);
  const std::string line =
      report_of_step_2(session, t, {"/job:worker/task:0", "/job:worker/task:7"});
  for (const char* part :
       {"/job:worker/task:0 waits: ", "push of w replica 0 step 2",
        "/job:ps/task:0 waits: w waits for the", "gradient of step 2 of replica 1",
        "/job:worker/task:7 is not there", "since=5 s", "kill it"})
    CHECK_MESSAGE(contains(line, part), line);
}

TEST_CASE("the report of a stall also says what the shards of the program itself wait for") {
  Towers t(false);
  Session session = Session::local(t.graph);
  const std::string line = report_of_step_2(session, t, {"/job:local/task:0"});
  for (const char* part : {"/job:local/task:0 waits: ", "push of w replica 0 step 2",
                           "w waits for the gradient of step 2 of replica 1"})
    CHECK_MESSAGE(contains(line, part), line);
}

}  // namespace troupe

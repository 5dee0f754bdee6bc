// Sessions on a cluster: the members that a program finds, the state after a session is closed, and
// a training that survives a shard's death. The members run in this process and talk over loopback.

#include <chrono>
#include <future>
#include <thread>

#include "actors/master/session_state.hpp"
#include "tests/support/fit.hpp"
#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/engine/replica_towers.hpp"
#include "training/checkpoints/checkpoint_folder.hpp"
#include "training/parameters/messages.hpp"
#include "training/group/parameter_group.hpp"

namespace troupe {
namespace {

const std::vector<std::string> kPs = {"/job:ps/task:0", "/job:ps/task:1"};
constexpr int64_t kSteps = 40;

}  // namespace

TEST_CASE("who connects to one member finds those that it speaks of") {
  const std::string last = "/job:worker/task:1";
  LocalCluster cluster({"/job:ps/task:0", "/job:worker/task:0", last});
  {
    Graph graph;
    const Session all_are_known = cluster.connect(graph);
  }
  for (int i = 0; i < 10; ++i) {
    Graph graph;
    const auto scope = graph.scope({.device = last});
    const Output x = placeholder(graph, DType::f32, {}), y = x + x;
    ConnectOptions options;
    options.process.threads = 1;
    options.process.cuda = false;
    Session session = Session::connect(graph, cluster.address(0), options);
    CHECK(session.run({y}, {{x, Tensor::scalar(1.0F)}})[0].item<float>() == 2.0F);
  }
}

TEST_CASE("connect() waits for as many nodes as addresses are given, and says who came") {
  LocalCluster cluster({"/job:worker/task:0", "/job:worker/task:1"});
  Graph g;
  std::vector<Output> everywhere;
  for (const char* task : {"/job:worker/task:0", "/job:worker/task:1"}) {
    const auto scope = g.scope({.device = task});
    everywhere.push_back(fill(g, {2}, 3));
  }
  ConnectOptions options;
  options.process.cuda = false;
  options.process.threads = 1;
  const std::string first = cluster.address(0);
  Session both = Session::connect(g, first + "," + cluster.address(1), options);
  CHECK(both.run(everywhere).size() == 2);  // no device is missing
  options.timeout = std::chrono::milliseconds(300);
  CHECK_THROWS_WITH_AS(Session::connect(g, first + "," + first + "," + first, options),
                       doctest::Contains("for the 3 nodes at"), Error);
}

namespace {

template <class F>
bool soon(const F& is) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!is() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  return is();
}

// True if that member has executors, or the shard of its number in this container.
bool holds_any(const LocalCluster& cluster, size_t n, const std::string& container) {
  Process& ps = cluster.process(n);
  caf::scoped_actor self(ps.system());
  int64_t executors = -1;
  bool found = true;
  self->request(ps.agent(), std::chrono::seconds(60), Describe{})
      .receive([&](const Description& d) { executors = d.executors; }, [](const caf::error&) {});
  self->request(ps.services().actor("shards"), std::chrono::seconds(60),
                DescribeShard{container, static_cast<int32_t>(n)})
      .receive([](const ShardDescription&) {}, [&](const caf::error&) { found = false; });
  return executors != 0 || found;
}

}  // namespace

TEST_CASE("when close() returns, the members have dropped the session's graph and its parameters") {
  LocalCluster cluster(kPs);
  Towers all({0});
  Session session = cluster.connect(all.graph);
  train(session, all.towers, {.steps = 2});
  const std::string container = own_container(session.state().master->session());
  session.close();
  for (size_t i = 0; i < kPs.size(); ++i) CHECK_FALSE(holds_any(cluster, i, container));
}

TEST_CASE("a program that ends without close() leaves nothing after its lease") {
  LocalCluster cluster(kPs, 1, builtin_ops(), std::chrono::milliseconds(200));
  Towers all({0});
  Session session = cluster.connect(all.graph);
  train(session, all.towers, {.steps = 2});
  const std::string container = own_container(session.state().master->session());
  for (size_t i = 0; i < kPs.size(); ++i) CHECK(holds_any(cluster, i, container));
  session.state().process->stop();  // as a kill: nobody is told that the session ends
  for (size_t i = 0; i < kPs.size(); ++i)
    CHECK(soon([&] { return !holds_any(cluster, i, container); }));
}

TEST_CASE("a session that is held after the end of its program's link ends, too") {
  LocalCluster cluster(kPs, 1, builtin_ops(), std::chrono::milliseconds(200));
  Process& ps = cluster.process(0);
  ps.hold(77, caf::make_node_id(7, caf::node_id::default_data::host_id_type{}));
  CHECK(soon([&] { return !ps.leases().is_of_another(77, ps.system().node()); }));
}

TEST_CASE("a training goes on when its session has ended where it had no values") {
  const std::string worker = "/job:worker/task:0";
  LocalCluster cluster({"/job:ps/task:0", worker});
  Towers all({0}, worker);
  Session session = cluster.connect(all.graph);
  Master& master = *session.state().master;
  auto batch = std::exchange(all.towers[0].batch, nullptr);
  bool ended = false;
  all.towers[0].batch = [&](int64_t step) {
    if (step == 7 && !std::exchange(ended, true)) {  // as if it had been away
      Process& at = cluster.process(1);
      Process& mine = master.process();
      at.leases().lost(mine.task(), SessionLeases::TimePoint{});
      at.peer_down({.job = "client", .task = 1'000'000'000}, "to look at the leases");
      CHECK(soon([&] { return !at.leases().is_of_another(master.session(), {}); }));
      at.leases().met(mine.task(), mine.incarnation(), mine.system().node());
    }
    if (ended) ParameterVisit(session)->up({"worker", 0, 1, ""}, {});  // as after a lost link
    return batch(step);
  };
  TrainOptions options{.steps = 20};
  options.patience = std::chrono::seconds(30);
  CHECK(train(session, all.towers, options).steps == 20);
  CHECK(ended);
}

TEST_CASE("a program whose session has ended here is told so") {
  LocalCluster cluster(kPs, 1, builtin_ops(), std::chrono::milliseconds(200));
  Towers all({0});
  Session session = cluster.connect(all.graph);
  train(session, all.towers, {.steps = 2});
  Master& master = *session.state().master;
  for (size_t i = 0; i < kPs.size(); ++i) {  // as if it had been away
    Process& ps = cluster.process(i);
    ps.leases().lost(master.process().task(), SessionLeases::TimePoint{});
    ps.peer_down({.job = "client", .task = 1'000'000'000}, "to look at the leases");
  }
  for (size_t i = 0; i < kPs.size(); ++i)
    CHECK(soon([&] { return !holds_any(cluster, i, own_container(master.session())); }));
  check_invalid(
      [&] { train(session, all.towers, {.steps = 4, .patience = std::chrono::seconds(9)}); },
      "has ended here", "away for 200 ms", "--resume");
}

namespace {

// The actor of the shard with that number, in whichever process of the cluster runs it.
caf::actor shard_actor(const LocalCluster& cluster, int32_t shard, const std::string& container) {
  Process& ps = cluster.process(static_cast<size_t>(shard));
  caf::scoped_actor self(ps.system());
  uint64_t id = 0;
  self->request(ps.services().actor("shards"), std::chrono::seconds(60),
                DescribeShard{container, shard})
      .receive([&](const ShardDescription& d) { id = d.door; },
               [](const caf::error& e) { FAIL("no shard: " << caf::to_string(e)); });
  return ps.remote(ps.task(), id);
}

// Trains with two replicas and kills the actors of the `dying` shards, one every 8 steps.
TrainResult train_with_dying_shards(const std::vector<int32_t>& dying, std::string& events) {
  Folder folder("session-shard-dies");
  LocalCluster cluster(kPs);
  Towers all({0, 1});
  Session session = cluster.connect(all.graph);
  const std::string container = own_container(session.state().master->session());
  size_t killed = 0;
  TrainOptions options{.steps = kSteps,
                       .checkpoint_dir = folder.path(),
                       .checkpoint_every = 5,
                       .patience = std::chrono::seconds(30)};
  options.on_event = [&](const TrainEvent& e) { events += e.text + "\n"; };
  options.on_progress = [&](const TrainProgress& p) {
    if (killed == dying.size() || p.step < 8 * static_cast<int64_t>(killed + 1)) return;
    caf::anon_send_exit(shard_actor(cluster, dying[killed++], container), caf::exit_reason::kill);
  };
  TrainResult result = train(session, all.towers, options);
  CHECK(killed == dying.size());
  return result;
}

}  // namespace

TEST_CASE("shards that die in processes that live are restored, and the weights are the same") {
  std::string events;
  const TrainResult undisturbed = train_with_dying_shards({}, events);
  CHECK(undisturbed.recoveries == 0);
  CHECK(events == "");
  for (const auto& dying : std::vector<std::vector<int32_t>>{{0}, {1}, {1, 0, 1}}) {
    events.clear();
    const TrainResult result = train_with_dying_shards(dying, events);
    CAPTURE(events);
    CHECK(result.steps == kSteps);
    CHECK(result.recoveries == static_cast<int64_t>(dying.size()));
    for (int32_t shard : dying)
      CHECK(events.find(detail::concat("shard ", shard, " of ")) != std::string::npos);
    CHECK(result.weights_sha256 == undisturbed.weights_sha256);
  }
}

}  // namespace troupe

// Sessions on a cluster: the state after one is closed, a training that survives a shard's death,
// and several sessions that train one set of parameters together. The members run in this process
// and talk over loopback.

#include <chrono>
#include <future>
#include <thread>

#include "actors/master/session_state.hpp"
#include "tests/support/fit.hpp"
#include "tests/support/engine/local_cluster.hpp"
#include "training/checkpoints/checkpoint_folder.hpp"
#include "training/parameters/messages.hpp"
#include "training/group/parameter_group.hpp"

namespace troupe {
namespace {

const std::vector<std::string> kPs = {"/job:ps/task:0", "/job:ps/task:1"};
constexpr int kReplicas = 3;
constexpr int64_t kSteps = 40;

// The towers of `replicas`, part of a training with kReplicas of them. Nodes have the same names in
// any process that builds them, so they draw the same random numbers.
struct Towers {
  Graph graph;
  std::vector<Tower> towers;
  explicit Towers(const std::vector<int64_t>& replicas, const std::string& device = "") {
    const Output w0 = truncated_normal(graph, Shape{4, 3}, 0, 0.5, 11);
    const Output b0 = fill(graph, {3}, 0);
    for (int64_t replica : replicas) {
      const auto scope = graph.scope(
          {.name = detail::concat("tower", replica), .device = device, .replica = replica});
      const Output x = placeholder(graph, DType::f32, {-1, 4}, "x");
      const Output y = placeholder(graph, DType::i64, {-1}, "y");
      const Output h = dropout(x, 0.25, 5);
      const Output logits = bias_add(matmul(h, parameter("w", w0)), parameter("b", b0));
      const Output loss = reduce_mean(softmax_cross_entropy(logits, y));
      towers.push_back(
          {replica, loss, minimize(loss, momentum(0.1, 0.9)), {x, y}, [replica](int64_t s) {
             Tensor images = Tensor::empty(DType::f32, {8, 4});
             Tensor labels = Tensor::empty(DType::i64, {8});
             for (int64_t i = 0; i < 32; ++i)
               images.mutable_data<float>()[i] =
                   static_cast<float>((i * 7 + s * 3 + replica * 5) % 11) * 0.1F;
             for (int64_t i = 0; i < 8; ++i)
               labels.mutable_data<int64_t>()[i] = (i + s + replica) % 3;
             return std::vector<Tensor>{images, labels};
           }});
    }
  }
};

TrainResult train_part(const LocalCluster& cluster, const std::vector<int64_t>& replicas,
                       const std::string& container, Aggregation rule) {
  Towers part(replicas);
  ConnectOptions options{.container = container, .replicas = kReplicas};
  Session session = cluster.connect(part.graph, {}, options);
  return train(session, part.towers, {.rule = rule, .steps = kSteps});
}

// One session per entry of `parts`, each on its own thread, all at once.
std::vector<TrainResult> train_parts(const std::vector<std::vector<int64_t>>& parts,
                                     Aggregation rule) {
  LocalCluster cluster(kPs);
  std::vector<std::future<TrainResult>> running;
  for (const auto& replicas : parts)
    running.push_back(std::async(std::launch::async, [&cluster, &replicas, rule] {
      return train_part(cluster, replicas, "together", rule);
    }));
  std::vector<TrainResult> out;
  for (auto& r : running) out.push_back(r.get());
  return out;
}

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

TEST_CASE(
    "synchronous sessions that share a container end with the bits of one with all replicas") {
  const std::string together = train_parts({{0, 1, 2}}, Aggregation::sync)[0].weights_sha256;
  for (const auto& parts : std::vector<std::vector<std::vector<int64_t>>>{
           {{0}, {1, 2}}, {{2}, {0, 1}}, {{0}, {1}, {2}}}) {
    const std::vector<TrainResult> results = train_parts(parts, Aggregation::sync);
    for (const TrainResult& r : results) {
      CHECK(r.steps == kSteps);
      CHECK(r.weights_sha256 == together);
    }
  }
}

TEST_CASE("asynchronous sessions share their parameters: every push of every session counts once") {
  LocalCluster cluster(kPs);
  std::vector<std::future<TrainResult>> running;
  Towers watched({0});
  ConnectOptions options{.container = "together", .replicas = kReplicas};
  Session first = cluster.connect(watched.graph, {}, options);
  const Callable prepared =
      first.prepare({watched.towers[0].loss, watched.towers[0].update}, watched.towers[0].feeds);
  for (int64_t replica : {1, 2})
    running.push_back(std::async(std::launch::async, [&cluster, replica] {
      return train_part(cluster, {replica}, "together", Aggregation::async);
    }));
  const TrainResult mine =
      train(first, watched.towers, {.rule = Aggregation::async, .steps = kSteps});
  CHECK(mine.steps == kSteps);
  for (auto& r : running) CHECK(r.get().steps == kSteps);
  for (const ParameterSlice& slice : parameter_slices(first))
    CHECK(slice.version == kReplicas * kSteps);
}

TEST_CASE("a session that follows another one sees when it has begun a new epoch, and only then") {
  LocalCluster cluster(kPs);
  const auto connect = [&](Towers& part) {
    ConnectOptions options{.container = "together", .replicas = 2};
    return cluster.connect(part.graph, {}, options);
  };
  Towers ours({0}), theirs({1});
  Session owner = connect(ours), follower = connect(theirs);
  for (auto [session, part] : {std::pair(&owner, &ours), {&follower, &theirs}})
    session->prepare({part->towers[0].loss, part->towers[0].update}, part->towers[0].feeds);
  ParameterVisit owning(owner), following(follower);
  const auto establish = [](const ParameterVisit& group) {
    group->wait([&](ParameterGroup::Done done) {
      group->establish({.mode = BeginEpoch::reset, .replicas = {0, 1}}, std::move(done));
    });
  };
  const auto has_new = [&] {
    std::promise<bool> found;
    following->ask_epoch([&](bool is_new) { found.set_value(is_new); });
    return found.get_future().get();
  };
  establish(owning);
  establish(following);
  REQUIRE(owning->owner());
  REQUIRE(!following->owner());
  CHECK(!has_new());
  establish(owning);
  CHECK(has_new());
  establish(following);
  CHECK(!has_new());
}

TEST_CASE("a step that is stale in the same epoch is done again, and nothing is restored") {
  const std::string worker = "/job:worker/task:0";
  LocalCluster cluster({"/job:ps/task:0", worker});
  Towers ours({0}), theirs({1}, worker);
  ConnectOptions options{.container = "together", .replicas = 2};
  Session owner = cluster.connect(ours.graph, {}, options);
  Session follower = cluster.connect(theirs.graph, {}, options);
  // The worker loses its routes to parameters once, and gets them again after a step has failed.
  auto batch = std::exchange(theirs.towers[0].batch, nullptr);
  bool forgotten = false;
  theirs.towers[0].batch = [&](int64_t step) {
    if (step == 7 && !std::exchange(forgotten, true))
      cluster.process(1).services().forget(follower.state().master->session());
    return batch(step);
  };
  std::string failed;
  const auto tell_again = [&](const TrainEvent& event) {
    if (event.kind == TrainEvent::recovering) failed += event.text;
    ParameterVisit group(follower);
    group->up({"worker", 0, 1, ""}, {});
  };
  auto leading =
      std::async(std::launch::async, [&] { return train(owner, ours.towers, {.steps = kSteps}); });
  const TrainResult followed =
      train(follower, theirs.towers, {.steps = kSteps, .on_event = tell_again});
  CHECK(failed.find("step 7 of replica 1") != std::string::npos);
  CHECK(followed.recoveries == 0);
  CHECK(followed.weights_sha256 == leading.get().weights_sha256);
}

TEST_CASE("a program that is started twice is refused while the first one trains") {
  LocalCluster cluster(kPs);
  const auto connect = [&](Towers& part) {
    return cluster.connect(part.graph, {}, {.container = "together", .replicas = 1});
  };
  Towers once({0}), twice({0});
  Session first = connect(once), second = connect(twice);
  TrainOptions options{.steps = 4, .pause_every = 2};
  options.on_pause = [&](const TrainPause&) {
    TrainOptions other{.steps = 4};
    other.patience = std::chrono::seconds(1);
    check_error(
        Errc::stale, [&] { train(second, twice.towers, other); },
        "replica 0 of container together is trained by another program, /job:client/",
        "give the towers of this one other replicas");
    return true;
  };
  CHECK(train(first, once.towers, options).recoveries == 0);
  CHECK(train(second, twice.towers, {.steps = 6}).steps == 6);
}

TEST_CASE("a program does not make the shards of another one that a ps has lost") {
  LocalCluster cluster(kPs);
  Towers ours({0}), theirs({1});
  const ConnectOptions shared{.container = "together", .replicas = 2};
  Session owner = cluster.connect(ours.graph, {}, shared);
  owner.prepare({ours.towers[0].loss, ours.towers[0].update}, ours.towers[0].feeds);
  cluster.process(1).stop();
  cluster.restart(1);
  Session follower = cluster.connect(theirs.graph, {}, shared);
  auto prepared = std::async(std::launch::async, [&] {
    follower.prepare({theirs.towers[0].loss, theirs.towers[0].update}, theirs.towers[0].feeds);
  });
  {
    ParameterVisit group(follower);
    while (group->owner()) std::this_thread::yield();  // its request for the lost shard follows
    group->wait([&](ParameterGroup::Done done) {       // and is before this one at each ps
      group->describe(std::make_shared<std::vector<ParameterSlice>>(), std::move(done));
    });
    caf::scoped_actor asker(cluster.process(1).system());
    asker
        ->request(cluster.process(1).services().actor("shards"), std::chrono::seconds(30),
                  DescribeShard{"together", 1})
        .receive([](const ShardDescription&) { FAIL("it has made the shard"); },
                 [](const caf::error& e) { CHECK(from_caf(e).first == Errc::stale); });
  }
  const TrainOptions options{.rule = Aggregation::async, .steps = 4};
  auto leading = std::async(std::launch::async, [&] { return train(owner, ours.towers, options); });
  prepared.get();
  train(follower, theirs.towers, options);
  leading.get();
  for (const ParameterSlice& slice : parameter_slices(follower)) CHECK(slice.version == 8);
}

TEST_CASE("a program does not take shards that a ps has lost from an owner that lives") {
  LocalCluster cluster(kPs);
  Towers ours({0}), theirs({1});
  const ConnectOptions shared{.container = "together", .replicas = 2};
  Session owner = cluster.connect(ours.graph, {}, shared);
  Session follower = cluster.connect(theirs.graph, {}, shared);
  for (auto [session, part] : {std::pair(&owner, &ours), {&follower, &theirs}})
    session->prepare({part->towers[0].loss, part->towers[0].update}, part->towers[0].feeds);
  cluster.process(0).stop();
  cluster.restart(0);
  TrainOptions options{.steps = 4};
  options.patience = std::chrono::seconds(1);
  check_error(
      Errc::stale, [&] { train(follower, theirs.towers, options); }, "has no shard 0 of together",
      "the owner of the container makes it again");
  CHECK(!ParameterVisit(follower)->owner());
  auto leading =
      std::async(std::launch::async, [&] { return train(owner, ours.towers, {.steps = 4}); });
  const TrainResult followed = train(follower, theirs.towers, {.steps = 4});
  CHECK(followed.weights_sha256 == leading.get().weights_sha256);
}

TEST_CASE("an asynchronous program is told that its last steps are in no checkpoint") {
  LocalCluster cluster(kPs);
  Folder folder("session-unsaved");
  Towers ours({0}), theirs({1});
  const ConnectOptions shared{.container = "together", .replicas = 2};
  TrainOptions options{.rule = Aggregation::async, .steps = 4};
  options.checkpoint_dir = folder.path();
  std::promise<void> ended;
  auto batch = std::exchange(theirs.towers[0].batch, nullptr);
  theirs.towers[0].batch = [&](int64_t step) {
    if (step == 3) ended.get_future().wait();
    return batch(step);
  };
  Session follower = cluster.connect(theirs.graph, {}, shared);
  Session owner = cluster.connect(ours.graph, {}, shared);  // it stays, and trains no more
  owner.prepare({ours.towers[0].loss, ours.towers[0].update}, ours.towers[0].feeds);
  auto following =
      std::async(std::launch::async, [&] { return train(follower, theirs.towers, options); });
  const TrainResult led = train(owner, ours.towers, options);
  CHECK(led.unsaved.empty());
  CHECK(!led.checkpoint.empty());
  ParameterVisit group(follower);
  const auto seen = std::make_shared<ShardMaker::OwnerSeen>();
  while (seen->trains)
    group->wait([&](ParameterGroup::Done done) { group->ask_owner(seen, std::move(done)); });
  ended.set_value();
  const TrainResult followed = following.get();
  CHECK(followed.steps == 4);
  CHECK(followed.unsaved.find("its last checkpoint may lack steps") != std::string::npos);
}

TEST_CASE("a program whose folder is taken takes no container over, and follows") {
  LocalCluster cluster(kPs);
  Folder folder("session-taken");
  const auto trained = [&](int64_t steps, std::string* warning) {
    Towers all({0});
    Session session = cluster.connect(all.graph, {}, {.container = "taken", .replicas = 1});
    TrainOptions options{.steps = steps, .checkpoint_dir = folder.path(), .resume = true};
    options.patience = std::chrono::seconds(30);
    options.on_event = [&](const TrainEvent& event) {
      if (event.kind == TrainEvent::warning && warning) *warning += event.text;
    };
    return train(session, all.towers, options);
  };
  CHECK(trained(10, nullptr).resumed_at == 0);
  std::string warning;
  {
    CheckpointFolder frozen(folder.path());  // as an owner that does not run holds it
    const auto held = frozen.claim();
    const TrainResult followed = trained(15, &warning);
    CHECK(followed.steps == 15);
    CHECK(followed.checkpoint.empty());
  }
  CHECK(warning.find("does not take its place") != std::string::npos);
  CHECK(trained(20, nullptr).checkpoint.find("step20") != std::string::npos);
}

TEST_CASE("the next program owns a container whose owner has ended, and goes on with its values") {
  LocalCluster cluster(kPs);
  Folder folder("session-handed-on");
  const auto trained = [&](const std::string& container, const TrainOptions& options) {
    Towers all({0});
    Session session = cluster.connect(all.graph, {}, {.container = container, .replicas = 1});
    return train(session, all.towers, options);
  };
  const std::string whole = trained("whole", {.steps = 20}).weights_sha256;
  CHECK(trained("handed", {.steps = 10}).resumed_at == 0);
  const TrainResult rest =
      trained("handed", {.steps = 20, .checkpoint_dir = folder.path(), .checkpoint_every = 5});
  CHECK(rest.resumed_at == 10);
  CHECK(rest.weights_sha256 == whole);
  CHECK(rest.checkpoint.find("step20") != std::string::npos);
  const TrainResult again = trained("handed", {.steps = 20, .anew = true});
  CHECK(again.resumed_at == 0);
  CHECK(again.weights_sha256 == whole);
}

}  // namespace troupe

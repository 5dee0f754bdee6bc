// Several sessions that train, or read, one set of parameters together. The members run in this
// process and talk over loopback.

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
constexpr int kReplicas = 3;
constexpr int64_t kSteps = 40;

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

TEST_CASE("a program that gives another number of replicas is refused with both numbers") {
  LocalCluster cluster(kPs);
  Towers ours({0}), theirs({1});
  Session owner = cluster.connect(ours.graph, {}, {.container = "two", .replicas = 1});
  train(owner, ours.towers, {.steps = 2});
  Session joins = cluster.connect(theirs.graph, {}, {.container = "two", .replicas = 3});
  check_error(
      Errc::bad_configuration, [&] { train(joins, theirs.towers, {.steps = 2}); },
      "is trained with 1 replicas, this program gives 3");
}

TEST_CASE("a program that only reads shared parameters follows their owner to a new epoch") {
  LocalCluster cluster(kPs);
  const ConnectOptions options{.container = "read", .replicas = 1};
  Towers ours({0}), theirs({0});
  Session owner = cluster.connect(ours.graph, {}, options);
  Session reader = cluster.connect(theirs.graph, {}, options);
  const auto loss = [](Session& session, Towers& part) {
    const Tower& tower = part.towers[0];
    const std::vector<Tensor> batch = tower.batch(3);
    const Feeds feeds = {{tower.feeds[0], batch[0]}, {tower.feeds[1], batch[1]}};
    return session.run({tower.loss}, feeds, {.seed = 3})[0].item<float>();
  };
  train(owner, ours.towers, {.steps = 2});
  CHECK(loss(reader, theirs) == loss(owner, ours));
  train(owner, ours.towers, {.steps = 5, .anew = true});
  for (const auto& [name, value] : parameter_values(owner))
    CHECK(same_bits(parameter_values(reader).at(name), value));
  CHECK(loss(reader, theirs) == loss(owner, ours));
  train(owner, ours.towers, {.steps = 7, .anew = true});
  std::optional<float> seen;
  int refused = 0;
  while (!seen && refused < 100'000) {
    try {
      seen = loss(reader, theirs);
    } catch (const Error& e) {
      CHECK(e.code() == Errc::stale);
      ++refused;
      std::this_thread::yield();
    }
  }
  CHECK(refused > 0);
  CHECK(seen == loss(owner, ours));
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

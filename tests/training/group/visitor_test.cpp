// Visitor: a member that asks the program of a cluster for its training and its ledger, and changes
// its rule and its rate scale while it runs; what is refused, and what a visit costs the training.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/fit.hpp"
#include "troupe/cluster.hpp"

namespace troupe {
namespace {

using Kind = Aggregation::Kind;
constexpr std::chrono::seconds kPatience{20};

NodeOptions through(const std::string& address) {
  NodeOptions out;
  out.job = "client";
  out.seeds = {address};
  return out;
}

int64_t sum_of(const PushCount& p) {
  int64_t out = p.applied + p.merged + p.late + p.duplicate + p.held;
  for (const auto& [reason, count] : p.refused) out += count;
  return out;
}

// A training on a ps and a worker that goes on until it is told to stop.
class Visited {
 public:
  explicit Visited(TrainOptions options = {}) : session_(cluster_.connect(fit_.graph)) {
    options.steps = 1'000'000;
    options.pause_every = 1;
    options.on_pause = [this, own = options.on_pause](const TrainPause& pause) {
      begun_ = true;
      begun_.notify_all();
      if (own) own(pause);
      return !stop_;
    };
    options.on_event = [this](const TrainEvent& e) {
      if (e.kind != TrainEvent::warning) told_.push_back(e.text);
    };
    training_ = std::jthread([this, options] { result_ = train(session_, fit_.all, options); });
    begun_.wait(false);
  }
  ~Visited() { stop(); }
  TrainResult stop() {
    stop_ = true;
    if (training_.joinable()) training_.join();
    return result_;
  }
  const std::string& address() const { return cluster_.address(0); }
  Session& session() { return session_; }
  // After stop().
  const std::vector<std::string>& told() const { return told_; }

 private:
  LocalCluster cluster_{{"/job:ps/task:0", "/job:worker/task:0"}};
  Fit fit_;
  Session session_;
  std::atomic<bool> begun_ = false, stop_ = false;
  std::vector<std::string> told_;
  TrainResult result_;
  std::jthread training_;
};

TEST_CASE("a visitor sees the training of a program, and its ledger adds up while it runs") {
  Visited visited;
  Visitor visitor(through(visited.address()), kPatience);
  const std::vector<RunningProgram> programs = visitor.programs();
  REQUIRE(programs.size() == 1);
  const RunningProgram& program = programs[0];
  CHECK(program.task.starts_with("/job:client/task:"));
  CHECK(program.silent == "");
  CHECK(program.phase != "");
  CHECK(program.progress.step > 0);
  CHECK(program.progress.steps == 1'000'000);
  CHECK(program.rule == Aggregation::sync);
  CHECK(program.rate_scale == 1);
  CHECK(program.replicas.size() == 2);
  int64_t before = 0;
  for (int i = 0; i < 20; ++i) {
    std::string left_out;
    const std::vector<PushCount> rows = visitor.ledger(program.task, "w*", left_out);
    CHECK(left_out == "");
    REQUIRE(rows.size() == 2);
    int64_t received = 0;
    for (const PushCount& row : rows) {
      CHECK(row.parameter == "w");
      CHECK(row.task == "/job:ps/task:0");
      CHECK(row.received == sum_of(row));
      received += row.received;
    }
    CHECK(received >= before);
    before = received;
  }
  std::string left_out;
  CHECK(visitor.ledger(program.task, "other", left_out).empty());
  visited.stop();
  CHECK(visited.told().empty());  // neither the visit nor its end is an event
}

TEST_CASE("a visitor changes rule and rate scale, and is told from which step on") {
  Visited visited;
  Visitor visitor(through(visited.address()), kPatience);
  const std::string task = visitor.programs().at(0).task;
  const int64_t ssp = visitor.set_rule(task, {Kind::ssp, 3});
  CHECK(ssp > 0);
  CHECK(visitor.programs().at(0).rule == Aggregation{Kind::ssp, 3});
  CHECK(visitor.set_rule(task, {Kind::ssp, 3}) >= ssp);  // it holds already
  const int64_t half = visitor.set_rate_scale(task, 0.5);
  CHECK(half >= ssp);
  CHECK(visitor.programs().at(0).rate_scale == 0.5);
  CHECK(rate_scale(visited.session()) == 0.5);
  const int64_t later = visitor.programs().at(0).progress.step + 50;
  CHECK(visitor.set_rule(task, Aggregation::sync, later) == later);
  CHECK(visitor.programs().at(0).progress.step >= later);
  visited.stop();
  const std::vector<std::string> expected = {
      detail::concat("the rule is ssp:3 from step ", ssp, " on; before it was sync"),
      detail::concat("the rate scale is 0.5 from step ", half, " on"),
      detail::concat("the rule is sync from step ", later, " on; before it was ssp:3")};
  CHECK(visited.told() == expected);
}

TEST_CASE("two visitors change one thing: both are answered, and the later change holds") {
  Visited visited;
  Visitor one(through(visited.address()), kPatience), two(through(visited.address()), kPatience);
  const std::string task = one.programs().at(0).task;
  const int64_t far = 900'000;
  std::string error;
  std::atomic<bool> answered{false};
  std::jthread waits([&] {
    try {
      one.set_rate_scale(task, 0.25, far);
    } catch (const Error& e) {
      error = e.what();
    }
    answered = true;
  });
  // The other change takes its place as soon as it has been asked for.
  for (int64_t from = 0; from < far && !answered;) from = two.set_rate_scale(task, 0.5, 0);
  waits.join();
  has(error, "a later change has taken the place of this one");
  CHECK(two.programs().at(0).rate_scale == 0.5);
}

TEST_CASE("a change that cannot be is refused as in the program, and the training goes on") {
  Visited visited;
  Visitor visitor(through(visited.address()), kPatience);
  const std::string task = visitor.programs().at(0).task;
  const auto refused = [&](Errc code, const std::function<void()>& call, const char* text) {
    check_error(code, call, text);
  };
  refused(
      Errc::invalid_argument,
      [&] {
        visitor.set_rule(task, {Kind::sync_backup, 2});
      },
      "leaves out 2 of 2 replicas");
  refused(
      Errc::invalid_argument, [&] { visitor.set_rule(task, Aggregation::async, -1); },
      "set_rule(): the step is -1");
  refused(
      Errc::invalid_argument, [&] { visitor.set_rule(task, Aggregation::async, 1'000'000); },
      "step 1000000 is past the end of the training, which has 1000000 steps");
  refused(
      Errc::invalid_argument, [&] { visitor.set_rate_scale(task, -1); }, "-1");
  refused(
      Errc::invalid_argument, [&] { visitor.set_rate_scale(task, 0); }, "0");
  refused(
      Errc::peer_lost, [&] { visitor.set_rule("/job:client/task:1", Aggregation::async); },
      "/job:client/task:1 is not there; troupe jobs lists the programs that are");
  refused(
      Errc::bad_configuration, [&] { visitor.set_rule("/job:ps/task:0", Aggregation::async); },
      "offers no service");
  CHECK(visitor.programs().at(0).rule == Aggregation::sync);
  visited.stop();
  CHECK(visited.told().empty());
  refused(
      Errc::invalid_argument, [&] { visitor.set_rule(task, Aggregation::async); },
      "set_rule(): nothing is being trained");
  refused(
      Errc::invalid_argument, [&] { visitor.set_rate_scale(task, 0.5); },
      "set_rate_scale(): nothing is being trained");
  CHECK(visitor.programs().at(0).phase == "");
}

// A change of a later step is open when the training ends.
TEST_CASE("a change whose step the training does not reach ends with an error that says so") {
  Visited visited;
  Visitor visitor(through(visited.address()), kPatience);
  const std::string task = visitor.programs().at(0).task;
  std::string error;
  std::jthread waits([&] {
    try {
      visitor.set_rule(task, {Kind::ssp, 1}, 900'000);
    } catch (const Error& e) {
      error = e.what();
    }
  });
  // The request is taken before the training stops: another one, behind it, is answered.
  visitor.set_rate_scale(task, 0.5);
  visited.stop();
  waits.join();
  CHECK(error != "");
}

TEST_CASE("a program in a long pause tells its state, and a change waits no longer than patience") {
  std::atomic<bool> asked = false, answered = false;
  TrainOptions options;
  options.on_pause = [&](const TrainPause& pause) {
    if (pause.step != 3) return true;
    asked = true;
    asked.notify_all();
    answered.wait(false);
    return true;
  };
  Visited visited(options);
  asked.wait(false);
  Visitor visitor(through(visited.address()), std::chrono::milliseconds(300));
  const RunningProgram program = visitor.programs().at(0);
  CHECK(program.phase == "in the pause of step 3");
  CHECK(program.progress.step == 3);
  check_error(
      Errc::timeout, [&] { visitor.set_rate_scale(program.task, 0.5); },
      "the training is alive (in the pause of step 3), and takes the change when its thread is "
      "free; it stays asked for");
  answered = true;
  answered.notify_all();
}

TEST_CASE("a visitor is refused as any member is") {
  LocalCluster cluster({"/job:worker/task:0"});
  NodeOptions node = through(cluster.address(0));
  node.cluster = "another";
  check_error(
      Errc::bad_configuration, [&] { Visitor(node, kPatience).programs(); },
      "the cluster at " + cluster.address(0) + " refused us: ");
  CHECK(Visitor(through(cluster.address(0)), kPatience).programs().empty());
  node.seeds.clear();
  check_error(
      Errc::invalid_argument, [&] { Visitor(node, kPatience).programs(); },
      "no address to join by");
}

}  // namespace
}  // namespace troupe

// Links between two workers of a call that end while the client's stay: under virtual time. Values
// of edges are lost without an answer; no step waits for them for long.
#include <doctest/doctest.h>

#include "actors/master/master.hpp"
#include "chaos/sim_process.hpp"
#include "tests/support/simulation/held_ops.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

const std::string kFirst = "/job:worker/task:0", kSecond = "/job:worker/task:1",
                  kClient = "/job:client/task:0";

std::deque<std::shared_ptr<AsyncContext>> held;  // by kernels of Hold, for the test to answer

std::shared_ptr<const Registry> ops() {
  return held_ops([](std::shared_ptr<AsyncContext> c) { held.push_back(std::move(c)); });
}

Tensor ones(int64_t count) {
  const std::vector<float> values(static_cast<size_t>(count), 1);
  return Tensor::of<float>(values, Shape{count});
}

// A client and two workers.
class Three {
 public:
  explicit Three(uint64_t seed) : net_(seed) {
    held.clear();
    int port = 1000;
    for (const std::string& task : {kFirst, kSecond, kClient}) {
      Member& m = *members_.emplace_back(std::make_unique<Member>());
      m.host = &net_.add(task);
      ProcessOptions options{.threads = 1, .cuda = false, .ops = ops_};
      ClusterOptions cluster{.listen = detail::concat("127.0.0.1:", port++),
                             .seeds = {"127.0.0.1:1000"}};
      m.process = std::make_unique<Process>(task, 1, options, cluster, seams_of(*m.host));
      m.jobs = &jobs_of(*m.process);
      m.brokers = &brokers_of(*m.process);
      m.jobs->clock().current_time = net_.now();
      if (task == kClient) master = std::make_unique<Master>(*m.process, graph, 7);
      m.process->start(task == kClient ? static_cast<MeshListener*>(&master->members()) : &m);
    }
    REQUIRE(pass_until([&] { return master->members().agents().size() == 2; }, 5s));
  }
  ~Three() {
    held.clear();
    master->stop();
    for (const auto& m : members_) m->process->stop();
    settle();
    master.reset();
  }

  void pass(std::chrono::milliseconds time) {
    pass_until([] { return false; }, time);
  }
  bool pass_until(const std::function<bool()>& done, std::chrono::milliseconds limit) {
    for (settle(); !done(); limit -= 1ms) {
      if (limit.count() <= 0) return false;
      net_.run_for(1ms);
      for (const auto& m : members_) m->jobs->clock().advance_time(1ms);
      settle();
    }
    return true;
  }
  void cut(size_t from, size_t to) {
    net_.cut(*members_[from]->host, *members_[to]->host, /*one_way=*/true);
  }
  void heal() { net_.heal(); }

  // Hold on each of these tasks, one after the other.
  void prepare(const std::vector<std::string>& tasks) {
    const Output x = graph.add({"In", {}, {}, "x"});
    Output y = x;
    for (const std::string& task : tasks) {
      const auto scope = graph.scope({.device = task});
      y = graph.add({"Hold", {y}, {}, "hold"});
    }
    call_ = master->calls().prepare({y}, {x});
  }
  struct Run {
    bool ended = false;
    RunResult result;
  };
  std::shared_ptr<Run> start(int64_t elements = 1, const RunOptions& options = {}) {
    auto run = std::make_shared<Run>();
    master->runs().start(call_, {ones(elements)}, options, [run](RunResult result) {
      run->result = std::move(result);
      run->ended = true;
    });
    return run;
  }
  // A kernel is waiting for its answer. Answers it with its own input.
  bool answer(std::chrono::milliseconds limit) {
    if (!pass_until([] { return !held.empty(); }, limit)) return false;
    const auto context = std::move(held.front());
    held.pop_front();
    context->done({context->input(0)});
    return true;
  }
  void check_that_it_goes_on(const std::shared_ptr<Run>& run, std::chrono::milliseconds limit) {
    CHECK(answer(limit));
    CHECK(answer(limit));
    CHECK(pass_until([&] { return run->ended; }, 1s));
    CHECK_MESSAGE(run->result.code == Errc::ok, run->result.text);
  }

  Graph graph{ops()};
  std::unique_ptr<Master> master;

 private:
  struct Member final : MeshListener {
    sim::SimHost* host = nullptr;
    std::unique_ptr<Process> process;
    caf::scheduler::test_coordinator* jobs = nullptr;
    caf::io::network::test_multiplexer* brokers = nullptr;
    void up(const troupe::Member& member, const caf::actor& agent) override {
      process->peer_up(member, agent);
    }
    void down(const troupe::Member& member, const std::string& reason) override {
      process->peer_down(member, reason);
    }
  };
  void settle() {
    for (bool busy = true; busy;) {
      busy = false;
      for (const auto& m : members_)
        while (m->jobs->try_run_once() || m->brokers->try_exec_runnable()) busy = true;
    }
  }

  const std::shared_ptr<const Registry> ops_ = ops();
  sim::SimNet net_;
  std::vector<std::unique_ptr<Member>> members_;
  int64_t call_ = 0;
};

}  // namespace

TEST_CASE("a value that is lost between two workers ends its step, and the next one waits") {
  Three three(1);
  three.prepare({kFirst, kSecond});
  const auto lost = three.start();
  three.pass_until([] { return !held.empty(); }, 2s);
  three.cut(0, 1);
  three.cut(1, 0);
  CHECK(three.answer(0s));
  CHECK(three.pass_until([&] { return lost->ended; }, 2s));
  CHECK(lost->result.code == Errc::peer_lost);
  for (const char* part : {"the link between", kFirst.c_str(), kSecond.c_str(), "silent"})
    CHECK_MESSAGE(lost->result.text.find(part) != std::string::npos, lost->result.text);
  const auto next = three.start(), hurried = three.start(1, {.timeout = 3s});
  three.pass(5s);
  CHECK(hurried->ended);
  CHECK(hurried->result.code == Errc::peer_lost);
  CHECK_MESSAGE(hurried->result.text.find("no link between") != std::string::npos,
                hurried->result.text);
  CHECK_MESSAGE(!next->ended, next->result.text);
  CHECK(held.empty());
  three.heal();
  three.check_that_it_goes_on(next, 10s);
}

TEST_CASE("a link that one worker has lost and the other one has not yet is not used") {
  for (const size_t late : {0, 1}) {
    CAPTURE(late);
    Three three(2);
    three.prepare({kFirst, kSecond});
    auto run = three.start();
    CHECK(three.answer(2s));
    CHECK(three.pass_until([] { return !held.empty(); }, 2s));
    const auto kept = std::move(held.front());
    held.pop_front();
    three.cut(late, 1 - late);  // the late one hears the other one for longer
    three.pass(700ms);
    three.cut(1 - late, late);
    int failures = 0;
    for (int ms = 0; ms < 5000; ++ms) {
      three.pass(1ms);
      if (!held.empty()) {
        const auto context = std::move(held.front());
        held.pop_front();
        context->done({context->input(0)});
      }
      if (!run->ended) continue;
      CHECK_MESSAGE(run->result.code == Errc::peer_lost, run->result.text);
      ++failures;
      run = three.start();
    }
    CHECK(failures == 1);
    three.heal();
    three.check_that_it_goes_on(run, 10s);
  }
}

TEST_CASE("a value that comes after the word that its sender has ended can still be lost") {
  Three three(4);
  three.prepare({kFirst});
  const auto lost = three.start(16 << 20);  // the small FinishStep overtakes it
  CHECK(three.answer(10s));
  three.pass(2ms);
  CHECK(!lost->ended);
  three.cut(0, 2);
  three.cut(2, 0);
  CHECK(three.pass_until([&] { return lost->ended; }, 2s));
  CHECK(lost->result.code == Errc::peer_lost);
}

TEST_CASE("a link between two workers that is lost between two steps costs none") {
  Three three(3);
  three.prepare({kFirst, kSecond});
  three.check_that_it_goes_on(three.start(), 2s);
  three.cut(0, 1);
  three.cut(1, 0);
  three.pass(3s);
  three.heal();
  three.pass(3s);
  three.check_that_it_goes_on(three.start(), 1s);
}

}  // namespace troupe

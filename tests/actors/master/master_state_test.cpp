// MasterState: every interleaving of members that come and go with late answers, for a client and
// two workers.
#include "actors/master/master_state.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <set>
#include <sstream>

namespace troupe {
namespace {

const std::string kClient = "/job:client/task:0", kW0 = "/job:worker/task:0",
                  kW1 = "/job:worker/task:1";
const std::vector<std::string> kTasks = {kClient, kW0, kW1};

ExecutableState new_call(int64_t id = 1) {
  ExecutableState call{.call = id, .fetches = {"loss:0"}, .feeds = {"x:0", "y:0"}};
  call.placement = {{0, kW0 + "/device:cpu:0"}, {1, kW1 + "/device:cpu:0"}};
  call.edges = {{0, kClient, kW0}, {1, kW0, kW1}, {2, kW1, kClient}};
  for (const std::string& task : kTasks) call.tasks[task] = InstallPhase::waiting;
  return call;
}

// The edge that `task` receives, and an op actor for it that differs between installations.
std::map<int32_t, uint64_t> receivers_of(const std::string& task, uint32_t executable) {
  const int32_t edge = task == kW0 ? 0 : task == kW1 ? 1 : 2;
  return {{edge, 100 * executable + static_cast<uint64_t>(edge)}};
}

// An order without an answer yet.
struct Request {
  MasterOrder::Kind kind;
  std::string task;
  uint32_t executable;
  friend auto operator<=>(const Request&, const Request&) = default;
};

// A master's state and its surroundings. Each order is checked when it is given.
struct World {
  MasterState state{5, kClient};
  std::set<Request> open;
  std::set<Request> given;  // installs so far; none may be given twice
  uint64_t incarnations = 0;
  int ups = 0, failures = 0;
  bool ready = false;

  World() { take(state.add(new_call())); }

  const ExecutableState& call() const { return state.calls().at(1); }

  void take(const MasterOrders& orders) {
    for (const MasterOrder& order : orders) {
      REQUIRE(order.call == 1);
      switch (order.kind) {
        case MasterOrder::install:
          REQUIRE(state.is_up(order.task));
          REQUIRE(order.executable == call().executable);
          REQUIRE(given.insert({order.kind, order.task, order.executable}).second);
          open.insert({order.kind, order.task, order.executable});
          break;
        case MasterOrder::connect:
          REQUIRE(order.executable == call().executable);
          REQUIRE(call().receivers.size() == 3);
          for (const auto& [edge, actor] : call().receivers)
            REQUIRE(actor == 100 * order.executable + static_cast<uint64_t>(edge));
          open.insert({order.kind, order.task, order.executable});
          break;
        case MasterOrder::uninstall:
          REQUIRE(state.is_up(order.task));
          REQUIRE(given.count({MasterOrder::install, order.task, order.executable}));
          break;
        case MasterOrder::ready:
          REQUIRE(!ready);
          REQUIRE(order.executable == call().executable);
          REQUIRE(call().ready());
          for (const std::string& task : kTasks) REQUIRE(state.is_up(task));
          ready = true;
          break;
        case MasterOrder::broken:
        case MasterOrder::failed:
          REQUIRE(!order.text.empty());
          ready = false;
          break;
      }
      if (order.kind == MasterOrder::install || order.kind == MasterOrder::uninstall) ready = false;
    }
    REQUIRE(ready == call().ready());
    REQUIRE(state.find(call().executable) == &call());
  }

  void up(const std::string& task) {
    ++ups;
    const uint32_t before = call().executable;
    take(state.member_up(task, ++incarnations));
    REQUIRE(call().executable > before);  // a returned member gets nothing old
  }
  void down(const std::string& task) {
    const uint32_t before = call().executable;
    take(state.member_down(task, "the link broke"));
    REQUIRE(!call().ready());
    REQUIRE(call().executable == before);
    REQUIRE(state.missing_tasks(1).size() >= 1);
  }
  // Delivers one answer, however old. An old one must change nothing.
  void answer(Request request) {
    open.erase(request);
    const MasterState before = state;
    const MasterOrders orders =
        request.kind == MasterOrder::install
            ? state.installed(request.task, request.executable,
                              receivers_of(request.task, request.executable))
            : state.connected(request.task, request.executable);
    if (request.executable != before.calls().at(1).executable) {
      REQUIRE(orders.empty());
      REQUIRE(state == before);
    }
    take(orders);
  }
  void fail(Request request, Errc code) {
    ++failures;
    open.erase(request);
    const MasterState before = state;
    const MasterOrders orders =
        state.install_failed(request.task, request.executable, code, "it\ndid not work");
    if (request.executable != before.calls().at(1).executable) {
      REQUIRE(orders.empty());
      REQUIRE(state == before);
    }
    take(orders);
  }

  // Lets all members return and answer; then the call must become ready.
  void settle() {
    for (const std::string& task : {kW0, kW1})
      if (!state.is_up(task)) up(task);
    take(state.retry());
    for (int i = 0; i < 100 && !open.empty(); ++i) answer(*open.begin());
    REQUIRE(ready);
    REQUIRE(state.missing_tasks(1).empty());
  }

  std::string key() const {
    std::ostringstream out;
    out << state.to_text() << incarnations << ' ' << ups << ' ' << failures << ' ' << ready << '\n';
    for (const Request& r : open) out << int{r.kind} << r.task << r.executable << '\n';
    return out.str();
  }
};

TEST_CASE("every interleaving of two workers and their answers keeps the promises" *
          doctest::test_suite("slow")) {
  int ups_max = 3, failures_max = 0;
  SUBCASE("who come three times") {}
  SUBCASE("who come twice, one of whose answers is a failure") { ups_max = 2, failures_max = 1; }
  std::set<std::string> seen;
  std::deque<World> frontier(1);
  size_t made_ready = 0;
  while (!frontier.empty()) {
    const World world = std::move(frontier.front());
    frontier.pop_front();
    const std::string key = world.key();
    if (!seen.insert(key).second) continue;
    made_ready += world.ready;
    World(world).settle();
    const auto then = [&](auto&& event) {
      World next(world);
      event(next);
      frontier.push_back(std::move(next));
    };
    for (const std::string& task : {kW0, kW1}) {
      if (world.ups < ups_max)
        then([&](World& w) { w.up(task); });  // also of one that is up: it restarted unnoticed
      if (world.state.is_up(task)) then([&](World& w) { w.down(task); });
    }
    for (const Request& request : world.open) {
      then([&](World& w) { w.answer(request); });
      if (world.failures < failures_max) then([&](World& w) { w.fail(request, Errc::peer_lost); });
    }
    if (world.failures > 0) then([](World& w) { w.take(w.state.retry()); });
  }
  CHECK(seen.size() > 2000);
  CHECK(made_ready > 10);
}

TEST_CASE("long random walks keep the promises" * doctest::test_suite("slow")) {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    World world;
    for (int i = 0; i < 150; ++i) {
      const std::string& task = kTasks[1 + random() % 2];
      const auto request = [&] {
        return *std::next(world.open.begin(),
                          static_cast<std::ptrdiff_t>(random() % world.open.size()));
      };
      switch (random() % 8) {
        case 0:
          world.up(task);
          break;
        case 1:
          if (world.state.is_up(task)) world.down(task);
          break;
        case 2:
          if (!world.open.empty())
            world.fail(request(),
                       std::vector{Errc::peer_lost, Errc::timeout, Errc::stale}[random() % 3]);
          break;
        case 3:
          world.take(world.state.retry());
          break;
        case 4:
          if (random() % 4 == 0) world.take(world.state.missing(task, world.call().executable));
          if (random() % 4 == 1) world.take(world.state.replace(new_call()));  // it has moved
          break;
        default:
          if (!world.open.empty()) world.answer(request());
          break;
      }
    }
    world.settle();
  }
}

MasterOrders only(const MasterOrders& orders, MasterOrder::Kind kind) {
  MasterOrders out;
  std::copy_if(orders.begin(), orders.end(), std::back_inserter(out),
               [&](const MasterOrder& o) { return o.kind == kind; });
  return out;
}

// A world with a ready call.
World ready_world() {
  World world;
  world.settle();
  return world;
}

TEST_CASE("a call is installed when its last task is up, on all of them at once") {
  World world;
  CHECK(world.open.empty());
  CHECK(world.state.missing_tasks(1) == std::vector{kW0, kW1});
  world.up(kW0);
  CHECK(world.open.empty());
  world.up(kW1);
  CHECK(world.open.size() == 3);
}

TEST_CASE("an installation waits for those that are not up, and then for those without an answer") {
  using Tasks = std::vector<std::string>;
  World world;
  CHECK(world.state.awaited_tasks(1) == Tasks{kW0, kW1});
  CHECK(world.state.awaited_tasks(2).empty());
  world.up(kW0);
  CHECK(world.state.awaited_tasks(1) == Tasks{kW1});
  world.up(kW1);
  CHECK(world.state.awaited_tasks(1) == kTasks);
  const uint32_t executable = world.call().executable;
  world.answer({MasterOrder::install, kClient, executable});
  world.answer({MasterOrder::install, kW1, executable});
  CHECK(world.state.awaited_tasks(1) == Tasks{kW0});
  world.answer({MasterOrder::install, kW0, executable});
  world.answer({MasterOrder::connect, kClient, executable});
  CHECK(world.state.awaited_tasks(1) == Tasks{kW0, kW1});
  world.settle();
  CHECK(world.state.awaited_tasks(1).empty());
}

TEST_CASE("a call of the client alone is installed when it is added") {
  MasterState state(5, kClient);
  ExecutableState call{.call = 1};
  call.tasks[kClient] = InstallPhase::waiting;
  CHECK(state.add(call) == MasterOrders{{MasterOrder::install, 1, 1, kClient}});
  CHECK(state.installed(kClient, 1, {}) == MasterOrders{{MasterOrder::connect, 1, 1, kClient}});
  CHECK(state.connected(kClient, 1) == MasterOrders{{MasterOrder::ready, 1, 1}});
  CHECK(state.member_up(kW0, 9).empty());
  CHECK(state.member_down(kW0, "gone").empty());
  CHECK(state.calls().at(1).ready());
}

TEST_CASE("a call whose worker is lost is broken, and says which") {
  World world = ready_world();
  const MasterOrders orders = world.state.member_down(kW1, "kill -9");
  REQUIRE(orders.size() == 1);
  CHECK(orders[0].kind == MasterOrder::broken);
  CHECK(orders[0].task == kW1);
  CHECK(orders[0].text == kW1 + " is gone: kill -9");
  CHECK(world.state.missing_tasks(1) == std::vector{kW1});
  CHECK(world.state.member_down(kW1, "again").empty());
}

TEST_CASE(
    "a worker that returns gets the call under a new number, and the others drop the old one") {
  World world = ready_world();
  const uint32_t old = world.call().executable;
  world.down(kW1);
  const MasterOrders orders = world.state.member_up(kW1, 77);
  const MasterOrders gone = only(orders, MasterOrder::uninstall),
                     made = only(orders, MasterOrder::install);
  REQUIRE(gone.size() == 2);
  CHECK(gone[0].task == kClient);
  CHECK(gone[1].task == kW0);
  REQUIRE(made.size() == 3);
  for (const MasterOrder& o : gone) CHECK(o.executable == old);
  for (const MasterOrder& o : made) CHECK(o.executable > old);
  CHECK(world.state.find(old) == nullptr);
  CHECK(world.call().receivers.empty());
}

TEST_CASE("a member that is told up twice is the same member") {
  World world = ready_world();
  const uint64_t incarnation = world.state.members().at(kW0).incarnation;
  CHECK(world.state.member_up(kW0, incarnation).empty());
  CHECK(world.call().ready());
}

TEST_CASE("a refusal is for good, whatever comes and goes") {
  for (const Errc code :
       {Errc::invalid_argument, Errc::bad_configuration, Errc::out_of_memory, Errc::internal}) {
    World world;
    world.up(kW0);
    world.up(kW1);
    const Request request{MasterOrder::install, kW0, world.call().executable};
    world.answer({MasterOrder::install, kW1, request.executable});
    const MasterOrders orders =
        world.state.install_failed(kW0, request.executable, code, "no kernel\nfor f16");
    REQUIRE(only(orders, MasterOrder::failed).size() == 1);
    const std::string text = only(orders, MasterOrder::failed)[0].text;
    CHECK(text == kW0 + " did not install the call: no kernel for f16");
    CHECK(only(orders, MasterOrder::uninstall).size() == 3);  // no task keeps its part
    CHECK(world.call().error == text);
    CHECK(!world.call().ready());
    const MasterState before = world.state;
    CHECK(world.state.installed(kW0, request.executable, {}).empty());
    CHECK(world.state.connected(kW0, request.executable).empty());
    CHECK(world.state.install_failed(kW1, request.executable, code, "me too").empty());
    CHECK(world.state.missing(kW1, request.executable).empty());
    CHECK(world.state.retry().empty());
    CHECK(world.state == before);
    CHECK(world.state.member_down(kW1, "gone").empty());
    CHECK(world.state.member_up(kW1, 99).empty());
  }
}

TEST_CASE(
    "an install that fails because its worker dies is not for good, though the failure is heard "
    "first") {
  World world;
  world.up(kW0);
  world.up(kW1);
  const uint32_t executable = world.call().executable;
  const MasterOrders orders =
      world.state.install_failed(kW0, executable, Errc::peer_lost, "the process is gone");
  CHECK(only(orders, MasterOrder::failed).empty());
  CHECK(only(orders, MasterOrder::broken).size() == 1);
  CHECK(world.call().error.empty());
  world.down(kW0);
  world.settle();
  CHECK(world.call().executable > executable);
}

TEST_CASE("an install that failed while its tasks stay up is tried again under a new number") {
  for (const Errc code : {Errc::peer_lost, Errc::timeout, Errc::stale}) {
    World world;
    world.up(kW0);
    world.up(kW1);
    const uint32_t executable = world.call().executable;
    world.fail({MasterOrder::install, kW0, executable}, code);
    world.open.clear();
    CHECK(world.state.install_failed(kW0, executable, code, "once more").empty());
    world.take(world.state.retry());
    CHECK(world.call().executable > executable);
    CHECK(world.open.size() == 3);
    CHECK(world.state.retry().empty());  // the retry is under way
    world.settle();
    CHECK(world.state.retry().empty());
  }
}

TEST_CASE("a task that does not know its executable gets it anew; an old number is ignored") {
  World world = ready_world();
  const uint32_t old = world.call().executable;
  CHECK(world.state.missing(kW0, old - 1).empty());
  CHECK(world.state.missing("/job:worker/task:9", old).empty());
  CHECK(world.call().ready());
  const MasterOrders orders = world.state.missing(kW0, old);
  REQUIRE(!orders.empty());
  CHECK(orders[0].kind == MasterOrder::broken);  // no run begins in a call that is being removed
  world.take(orders);
  CHECK(!world.call().ready());
  CHECK(world.call().executable > old);
  world.settle();
}

TEST_CASE("a call that moves is taken back where it was, and installed where it is to be") {
  World world = ready_world();
  const uint32_t old = world.call().executable;
  ExecutableState moved = new_call();
  for (auto& [node, device] : moved.placement) device = kW0 + "/device:cpu:0";
  moved.edges = {{0, kClient, kW0}, {1, kW0, kClient}};
  moved.tasks.erase(kW1);
  const MasterOrders orders = world.state.replace(moved);
  CHECK(only(orders, MasterOrder::uninstall).size() == 3);
  for (const MasterOrder& order : only(orders, MasterOrder::uninstall))
    CHECK(order.executable == old);
  const MasterOrders installs = only(orders, MasterOrder::install);
  REQUIRE(installs.size() == 2);
  CHECK(installs[0].task == kClient);
  CHECK(installs[1].task == kW0);
  CHECK(world.call().executable > old);
  CHECK(world.state.installed(kW1, old, {}).empty());
  CHECK(world.state.newest_incarnation() == world.incarnations);
  world.state.member_down(kW1, "it has left");
  CHECK(world.state.missing_tasks(1).empty());
}

TEST_CASE("answers of tasks that have no part in the call change nothing") {
  World world;
  world.up(kW0);
  world.up(kW1);
  const MasterState before = world.state;
  const uint32_t executable = world.call().executable;
  CHECK(world.state.installed("/job:ps/task:0", executable, {}).empty());
  CHECK(world.state.connected("/job:ps/task:0", executable).empty());
  CHECK(world.state.connected(kW0, executable).empty());  // it was not told to connect yet
  CHECK(world.state.install_failed("/job:ps/task:0", executable, Errc::peer_lost, "gone").empty());
  CHECK(world.state == before);
}

TEST_CASE("calls are installed and broken each on its own") {
  MasterState state(5, kClient);
  state.member_up(kW0, 1);
  ExecutableState first = new_call(1), second = new_call(2);
  first.tasks.erase(kW1);
  CHECK(only(state.add(first), MasterOrder::install).size() == 2);
  CHECK(only(state.add(second), MasterOrder::install).empty());
  CHECK(state.calls().at(1).executable != state.calls().at(2).executable);
  const MasterOrders orders = only(state.member_up(kW1, 1), MasterOrder::install);
  REQUIRE(orders.size() == 3);
  for (const MasterOrder& o : orders) CHECK(o.call == 2);
  for (const MasterOrder& o : state.member_down(kW1, "gone")) CHECK(o.call == 2);
  CHECK(only(state.member_down(kW0, "gone"), MasterOrder::broken).size() == 2);
}

TEST_CASE("the text of a state names its members and calls, with what each waits for") {
  World world = ready_world();
  MasterState state = world.state;
  state.add(new_call(2));
  state.install_failed(kW0, state.calls().at(2).executable, Errc::invalid_argument,
                       "no kernel for f16");
  const std::string text = state.to_text();
  for (const std::string line : {"master 1\n", "session 5\n", "\ncall 1 ", "\ncall 2 ",
                                 "no kernel for f16", "member /job:worker/task:0 ", " up\n"}) {
    INFO("\"", line, "\" in ", text);
    CHECK(text.find(line) != std::string::npos);
  }
  CHECK(MasterState().to_text() != text);
}

}  // namespace
}  // namespace troupe

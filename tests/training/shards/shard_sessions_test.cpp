// The sessions that share a shard: which of them made it, owns it, and trains which replica.
#include <caf/all.hpp>
#include <doctest/doctest.h>

#include "actors/async/messages.hpp"
#include "actors/cluster/process.hpp"
#include "tests/support/shard_user.hpp"
#include "training/parameters/messages.hpp"

namespace troupe {
namespace {

TEST_CASE("the session that made a shard is told so each time it asks, others never") {
  Process process("/job:local/task:0", {});
  const caf::actor service = process.services().actor("shards");
  {
    caf::scoped_actor first(process.system()), second(process.system());
    const auto created = [&](caf::scoped_actor& session, uint64_t claim = 0) {
      bool out = false;
      CreateShard order = one_shard();
      order.claim = claim;
      session->request(service, std::chrono::seconds(30), order)
          .receive([&](const ShardDescription& d) { out = d.created; },
                   [](const caf::error& e) { FAIL("no shard: " << caf::to_string(e)); });
      return out;
    };
    CHECK(created(first));
    CHECK(!created(second));
    CHECK(created(first));  // the first answer may have been lost
    CHECK(!created(second));
    CHECK(created(second, 2));  // it has trained, and was late at a shard that was made anew
    CHECK(!created(first));
    CHECK(!created(first, 2));
    CHECK(created(second, 2));
    CHECK(!created(first, ~uint64_t{0}));  // no later claim would be left
    CHECK(created(first, 3));
  }
  process.stop();
}

TEST_CASE("a session that shows up makes no shard") {
  Process process("/job:local/task:0", {});
  const caf::actor service = process.services().actor("shards");
  {
    caf::scoped_actor session(process.system());
    const auto answer = [&](bool makes) {
      CreateShard order = one_shard();
      order.makes = makes;
      Errc out = Errc::ok;
      session->request(service, std::chrono::seconds(30), order)
          .receive([](const ShardDescription&) {},
                   [&](const caf::error& e) { out = from_caf(e).first; });
      return out;
    };
    CHECK(answer(false) == Errc::stale);
    CHECK(answer(false) == Errc::stale);
    CHECK(answer(true) == Errc::ok);
    CHECK(answer(false) == Errc::ok);
  }
  process.stop();
}

TEST_CASE("a shard whose owner has ended is the next one's, and that one alone begins epochs") {
  Process process("/job:local/task:0", {});
  const caf::actor service = process.services().actor("shards");
  {
    std::optional<caf::scoped_actor> first(process.system());
    caf::scoped_actor second(process.system()), third(process.system());
    const auto takes_over = [&](caf::scoped_actor& session) {
      ShardDescription out;
      CreateShard order = one_shard();
      order.takes_over = true;
      session->request(service, std::chrono::seconds(30), order)
          .receive([&](const ShardDescription& d) { out = d; },
                   [](const caf::error& e) { FAIL("no shard: " << caf::to_string(e)); });
      return out;
    };
    const auto begins = [&](caf::scoped_actor& session, uint64_t epoch, BeginEpoch::Mode mode) {
      BeginEpoch m{.container = "shared", .epoch = epoch, .mode = mode, .replicas = {0}};
      Errc out = Errc::ok;
      session->request(service, std::chrono::seconds(30), m)
          .receive([] {}, [&](const caf::error& e) { out = from_caf(e).first; });
      return out;
    };
    use_shard(*first, service);
    const ShardDescription lives = takes_over(second);
    CHECK(!lives.created);
    CHECK(!lives.owner_away);
    CHECK(begins(second, 2, BeginEpoch::reset) == Errc::stale);
    first.reset();
    while (!takes_over(second).created) std::this_thread::yield();
    CHECK(!takes_over(third).created);
    CHECK(begins(third, 2, BeginEpoch::reset) == Errc::stale);
    CHECK(begins(second, 2, BeginEpoch::keep) == Errc::invalid_argument);  // it has no values
    CHECK(begins(second, 2, BeginEpoch::reset) == Errc::ok);
  }
  process.stop();
}

TEST_CASE("a replica is trained by one session at a time, until that one ends or lets it go") {
  Process process("/job:local/task:0", {});
  const caf::actor service = process.services().actor("shards");
  {
    std::optional<caf::scoped_actor> first(process.system());
    caf::scoped_actor owner(process.system()), second(process.system());
    std::string text;
    const auto trains = [&](caf::scoped_actor& session, std::vector<int32_t> replicas) {
      CreateShard order = one_shard();
      order.replicas = {0, 1};
      order.trains = std::move(replicas);
      Errc out = Errc::ok;
      session->request(service, std::chrono::seconds(30), order)
          .receive([](const ShardDescription&) {},
                   [&](const caf::error& e) { std::tie(out, text) = from_caf(e); });
      return out;
    };
    CHECK(trains(owner, {}) == Errc::ok);
    CHECK(trains(*first, {0}) == Errc::ok);
    CHECK(trains(*first, {0}) == Errc::ok);
    CHECK(trains(second, {1}) == Errc::ok);
    CHECK(trains(second, {0, 1}) == Errc::bad_configuration);
    CHECK(text.find("replica 0 of container shared is trained by another program, "
                    "/job:local/task:0") != std::string::npos);
    CHECK(trains(*first, {1}) == Errc::bad_configuration);  // a refusal changes nothing
    CHECK(trains(second, {}) == Errc::ok);
    CHECK(trains(*first, {0, 1}) == Errc::ok);
    CHECK(trains(second, {1}) == Errc::bad_configuration);
    first.reset();
    while (trains(second, {1}) != Errc::ok) std::this_thread::yield();
    CHECK(trains(second, {0, 1, 2}) == Errc::invalid_argument);
    CHECK(trains(owner, {1}) == Errc::ok);  // the owner is not refused
    CHECK(trains(second, {1}) == Errc::bad_configuration);
  }
  process.stop();
}

}  // namespace
}  // namespace troupe

// When the sessions of programs that are away end.

#include <doctest/doctest.h>

#include <caf/all.hpp>

#include "actors/cluster/session_leases.hpp"
#include "tests/support/refusal.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

constexpr SessionLeases::TimePoint kBegin{};

caf::node_id node(uint32_t process) {
  return caf::make_node_id(process, caf::node_id::default_data::host_id_type{});
}

struct Here {
  SessionLeases leases{10min, node(1)};

  Here() { leases.met("/job:client/task:7", 1, node(7)); }
  std::vector<uint64_t> over_at(std::chrono::milliseconds time) {
    std::vector<uint64_t> out;
    for (const auto& over : leases.take_over(kBegin + time)) out.push_back(over.session);
    return out;
  }
};
using Ids = std::vector<uint64_t>;

}  // namespace

TEST_CASE("a session ends after its program's lease; it is refused then if it has lost values") {
  Here here;
  here.leases.hold(70, node(7), kBegin, /*values=*/true);
  here.leases.hold(71, node(7), kBegin);
  CHECK(here.over_at(24h).empty());
  CHECK_FALSE(here.leases.any_away());
  here.leases.lost("/job:client/task:7", kBegin);
  CHECK(here.leases.any_away());
  CHECK(here.over_at(10min - 1ms).empty());
  here.leases.hold(70, node(7), kBegin + 1min);  // a message that was waiting
  CHECK(here.over_at(10min) == Ids{70, 71});
  CHECK_FALSE(here.leases.any_away());
  here.leases.met("/job:client/task:7", 1, node(7));
  check_invalid([&] { here.leases.hold(70, node(7), kBegin); }, "its program was away for 10 min",
                "--resume");
  here.leases.hold(71, node(7), kBegin);  // it had no values
  here.leases.hold(72, node(7), kBegin);  // another session of the program
}

TEST_CASE("a program that is back within the lease keeps its sessions") {
  Here here;
  here.leases.hold(70, node(7), kBegin);
  here.leases.lost("/job:client/task:7", kBegin);
  here.leases.met("/job:client/task:7", 1, node(7));
  CHECK(here.over_at(24h).empty());
  here.leases.lost("/job:client/task:7", kBegin + 24h);  // and time counts anew
  CHECK(here.over_at(24h + 9min).empty());
  CHECK(here.over_at(24h + 10min) == Ids{70});
}

TEST_CASE("time in which this process itself did not run counts for no program") {
  Here here;
  here.leases.hold(70, node(7), kBegin);
  here.leases.lost("/job:client/task:7", kBegin);
  here.leases.was_frozen(1h, kBegin + 1h + 1min);
  CHECK(here.over_at(1h + 10min - 1ms).empty());
  here.leases.was_frozen(24h, kBegin + 2h);  // not longer than it is away
  CHECK(here.over_at(2h + 10min - 1ms).empty());
  CHECK(here.over_at(2h + 10min) == Ids{70});
}

TEST_CASE("the sessions of a program end at once when it has been started again") {
  Here here;
  here.leases.hold(70, node(7), kBegin);
  here.leases.lost("/job:client/task:7", kBegin);
  here.leases.met("/job:client/task:8", 9, node(8));  // another one
  CHECK(here.over_at(1ms).empty());
  here.leases.met("/job:client/task:7", 2, node(9));
  CHECK(here.over_at(1ms) == Ids{70});
  check_invalid([&] { here.leases.check(70, node(7)); }, "started again");
  // A message that was waiting.
  check_invalid([&] { here.leases.hold(71, node(7), kBegin); }, "started again");
}

TEST_CASE("a lease of 0 never ends, except for a program that was started again") {
  SessionLeases leases(0ms, node(1));
  leases.met("/job:client/task:7", 1, node(7));
  leases.hold(70, node(7), kBegin);
  leases.lost("/job:client/task:7", kBegin);
  CHECK_FALSE(leases.any_away());
  CHECK(leases.take_over(kBegin + 24h * 365).empty());
  leases.met("/job:client/task:7", 2, node(8));
  CHECK(leases.any_away());
  CHECK(leases.take_over(kBegin).size() == 1);
}

TEST_CASE("a session that ended in order is forgotten, and may be another's no more") {
  Here here;
  here.leases.met("/job:client/task:8", 1, node(8));
  here.leases.hold(70, node(7), kBegin);
  check_invalid([&] { here.leases.hold(70, node(8), kBegin); }, "of another process");
  here.leases.release(70);
  here.leases.lost("/job:client/task:7", kBegin);
  CHECK_FALSE(here.leases.any_away());
  CHECK(here.over_at(24h).empty());
}

TEST_CASE("a message that is looked at when its program has died is known as that program's") {
  Here here;
  here.leases.lost("/job:client/task:7", kBegin);
  here.leases.hold(70, node(7), kBegin);
  here.leases.met("/job:client/task:7", 2, node(9));
  CHECK(here.over_at(1ms) == Ids{70});
}

TEST_CASE("a session whose program was never met counts as left") {
  Here here;
  here.leases.hold(80, node(8), kBegin);  // its link ended before the message was looked at
  here.leases.hold(10, node(1), kBegin);  // of this process itself
  CHECK(here.over_at(24h) == Ids{80});
}

}  // namespace troupe

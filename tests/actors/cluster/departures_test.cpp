// Members that leave: who waits, and until when.
#include "actors/cluster/departures.hpp"

#include <doctest/doctest.h>

namespace troupe {
namespace {

const std::string kWorker = "/job:worker/task:1";

}  // namespace

TEST_CASE("a member that leaves waits while somebody takes its work, and is let go") {
  Departures departures;
  int told = 0;
  departures.set_taker([&] { ++told; });
  CHECK(departures.leaves(kWorker));
  CHECK(departures.leaves(kWorker));
  CHECK(told == 1);
  CHECK(departures.leaving() == std::set<std::string>{kWorker});
  departures.let_go(kWorker);
  CHECK(!departures.leaves(kWorker));
  CHECK(departures.leaving() == std::set<std::string>{kWorker});  // nothing moves there any more
  departures.forget(kWorker);
  CHECK(departures.leaving().empty());
  CHECK(departures.leaves(kWorker));  // another life of it
  CHECK(told == 2);
}

TEST_CASE("without anybody to take its work a member ends at once, also in mid-wait") {
  Departures departures;
  CHECK(!departures.leaves(kWorker));
  departures.forget(kWorker);
  departures.set_taker([] {});
  CHECK(departures.leaves(kWorker));
  departures.set_taker(nullptr);
  CHECK(!departures.leaves(kWorker));
}

TEST_CASE("the one that takes work may let a member go when it is told") {
  Departures departures;
  departures.set_taker([&] { departures.let_go(kWorker); });
  departures.leaves(kWorker);
  CHECK(!departures.leaves(kWorker));
}

}  // namespace troupe

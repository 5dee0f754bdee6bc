// The list by which threads hand something to a step, and by which a step without an owner gets
// one.
#include <atomic>
#include <vector>

#include <doctest/doctest.h>

#include "actors/engine/inbox.hpp"
#include "tests/support/threads.hpp"

namespace troupe {
namespace {

std::unique_ptr<Arrival> arrival(uint32_t node) {
  auto out = std::make_unique<Arrival>();
  out->firing.node = node;
  return out;
}

std::vector<uint32_t> taken(Inbox& inbox) {
  std::vector<uint32_t> out;
  inbox.take_all([&](Arrival& item) { out.push_back(item.firing.node); });
  return out;
}

TEST_CASE("an owned inbox keeps what is handed in, and the owner takes the newest first") {
  Inbox inbox;
  CHECK(inbox.has_owner());
  CHECK(taken(inbox).empty());
  for (uint32_t n : {1U, 2U, 3U}) CHECK(!inbox.hand_in(arrival(n)));
  CHECK(taken(inbox) == std::vector<uint32_t>{3, 2, 1});
  CHECK(taken(inbox).empty());
}

TEST_CASE("an owner gives the step up only when nothing has arrived") {
  Inbox inbox;
  CHECK(!inbox.hand_in(arrival(1)));
  CHECK(!inbox.give_up());
  CHECK(inbox.has_owner());
  CHECK(taken(inbox).size() == 1);
  CHECK(inbox.give_up());
  CHECK(!inbox.has_owner());
}

TEST_CASE("the first to hand something to a step without an owner becomes its owner") {
  Inbox inbox;
  CHECK(inbox.give_up());
  CHECK(inbox.hand_in(arrival(7)));
  CHECK(inbox.has_owner());
  CHECK(!inbox.hand_in(arrival(8)));
  CHECK(taken(inbox) == std::vector<uint32_t>{8, 7});
}

TEST_CASE("an arrival that is being taken may bring others") {
  Inbox inbox;
  inbox.hand_in(arrival(1));
  inbox.take_all([&](Arrival&) { inbox.hand_in(arrival(2)); });
  CHECK(taken(inbox) == std::vector<uint32_t>{2});
}

TEST_CASE("a cleared inbox is empty and owned, and one that ends drops what it has") {
  Inbox inbox;
  inbox.hand_in(arrival(1));
  inbox.clear();
  CHECK(taken(inbox).empty());
  CHECK(inbox.give_up());
  inbox.clear();
  CHECK(inbox.has_owner());
  inbox.hand_in(arrival(2));
}

TEST_CASE("of many threads one at a time owns the step, and nothing is lost") {
  constexpr int kThreads = 4, kEach = 20'000;
  Inbox inbox;
  REQUIRE(inbox.give_up());
  std::atomic<int> owners{0}, most{0};
  int64_t sum = 0;  // the owner's
  const auto own = [&] {
    do {
      most = std::max(most.load(), ++owners);
      inbox.take_all([&](Arrival& item) { sum += item.firing.node; });
      --owners;
    } while (!inbox.give_up());
  };
  on_threads(kThreads, [&](int) {
    for (uint32_t n = 1; n <= kEach; ++n)
      if (inbox.hand_in(arrival(n))) own();
  });
  CHECK(!inbox.has_owner());
  CHECK(most == 1);
  CHECK(sum == int64_t{kThreads} * kEach * (kEach + 1) / 2);
}

}  // namespace
}  // namespace troupe

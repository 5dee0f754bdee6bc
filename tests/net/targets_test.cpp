// Whom to dial, and when: no sockets, time as an argument.
#include "net/targets.hpp"

#include <doctest/doctest.h>

#include "tests/support/sim_net.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;
using Addresses = std::vector<std::string>;

const TimePoint kStart = TimePoint{} + 1h;

bool nobody(const std::string&) { return false; }

// Fails every dial until `end`, looking every 10 ms; returns when it dialled.
std::vector<std::chrono::milliseconds> dials(Targets& targets, std::chrono::milliseconds end) {
  std::vector<std::chrono::milliseconds> out;
  for (auto at = 0ms; at < end; at += 10ms)
    for (const std::string& address : targets.due(kStart + at, nobody)) {
      out.push_back(at);
      targets.failed(address, kStart + at);
    }
  return out;
}

}  // namespace

TEST_CASE("a seed is dialled for ever, with growing pauses up to 2.5 s") {
  sim::SeededRng rng(1);
  Targets targets(rng);
  targets.add_seed("s:1", kStart);
  const auto at = dials(targets, 1h);
  REQUIRE(at.size() > 1400);
  CHECK(at[0] == 0ms);
  for (size_t i = 1; i < at.size(); ++i) {
    const auto backoff = std::min<std::chrono::milliseconds>(
        100ms * (1 << std::min<size_t>(i - 1, 9)), kBackoffSeedMax);
    CHECK(at[i] - at[i - 1] >= backoff * 3 / 4);
    CHECK(at[i] - at[i - 1] <= backoff * 5 / 4 + 10ms);
  }
}

TEST_CASE("an address is not dialled twice at once, and a linked one not at all") {
  sim::SeededRng rng(1);
  Targets targets(rng);
  targets.add("a:1", "/job:ps/task:0", kStart, 50ms);
  CHECK(targets.due(kStart, nobody).empty());
  CHECK(targets.due(kStart + 50ms, nobody) == Addresses{"a:1"});
  CHECK(targets.due(kStart + 10s, nobody).empty());
  targets.failed("a:1", kStart + 10s);
  CHECK(targets.due(kStart + 20s, [](const std::string&) { return true; }).empty());
  CHECK(targets.due(kStart + 20s, nobody) == Addresses{"a:1"});
}

TEST_CASE("a lost member is forgotten after ten minutes, one that left at once, a seed never") {
  sim::SeededRng rng(1);
  Targets targets(rng);
  targets.add_seed("seed:1", kStart);
  targets.add("lost:1", "/job:worker/task:0", kStart, 0ms);
  targets.add("left:1", "/job:worker/task:1", kStart, 0ms);
  targets.lost("/job:worker/task:1", true, kStart);
  CHECK(!targets.has("left:1"));
  targets.lost("/job:worker/task:0", false, kStart + 1s);
  (void)dials(targets, 590s);
  CHECK(targets.has("lost:1"));
  (void)targets.due(kStart + 602s, nobody);
  CHECK(!targets.has("lost:1"));
  CHECK(targets.has("seed:1"));
}

TEST_CASE("there is a word about a missing seed every five to eight seconds, about others none") {
  sim::SeededRng rng(1);
  Targets targets(rng);
  targets.add_seed("s:1", kStart);
  targets.add("a:1", "/job:ps/task:0", kStart, 0ms);
  int words = 0;
  for (auto at = 0ms; at < 60s; at += 10ms)
    for (const std::string& address : targets.due(kStart + at, nobody)) {
      const bool told = targets.failed(address, kStart + at);
      CHECK(!(told && address == "a:1"));
      words += told;
    }
  CHECK(words >= 7);
  CHECK(words <= 12);
}

TEST_CASE("no more than kTargetsMax addresses are kept") {
  sim::SeededRng rng(1);
  Targets targets(rng);
  for (size_t i = 0; i <= kTargetsMax; ++i) targets.add(std::to_string(i), "x", kStart, 0ms);
  CHECK(targets.due(kStart, nobody).size() == kTargetsMax);
}

}  // namespace troupe
